// matmul: packs a strip of b into scratch, then runs down the rows of a. Work is
// cut into (matrix, chunk of rows, strip of columns); see product.h.

#include <algorithm>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/product.h"

namespace stowage::cpu {
namespace {

// One operand: a stack of matrices.
template <typename T>
struct Operand {
  Strided<T> matrix;
  Shape batch;
  Strides batch_strides;

  // The first `rank` leading dimensions alone.
  void KeepBatch(int rank) {
    const auto count = static_cast<size_t>(rank);
    batch = Shape(Shape(batch).span().first(count));
    batch_strides = Strides(Strides(batch_strides).span().first(count));
  }
  int64_t BatchOffset(int64_t index) const {
    int64_t offset = 0;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      offset += index % batch[axis] * batch_strides[axis];
      index /= batch[axis];
    }
    return offset;
  }
};

template <typename T>
Operand<T> MakeOperand(const TensorView& x, bool transposed) {
  const int row = x.shape().rank() - 2;
  const int column = row + 1;
  Operand<T> operand = {
      {x.as<const T>(), x.strides[row], x.strides[column]},
      Shape(x.shape().span().first(static_cast<size_t>(row))),
      Strides(x.strides.span().first(static_cast<size_t>(row)))};
  // The stride along a dimension of 1 says nothing; make it recognizable.
  if (x.shape()[row] == 1) operand.matrix.row = x.shape()[column];
  if (x.shape()[column] == 1) operand.matrix.column = 1;
  if (transposed) std::swap(operand.matrix.row, operand.matrix.column);
  return operand;
}

// Takes leading dimensions of `a` into its rows, from the last one on, as far
// as they continue the rows and b is the same matrix along them.
template <typename T>
void FoldBatchIntoRows(Operand<T>* a, Operand<T>* b, int64_t* rows) {
  int kept = a->batch.rank();
  for (; kept > 0; --kept) {
    const int axis = kept - 1;
    const bool same_b = b->batch.rank() == 0 || b->batch_strides[axis] == 0 ||
                        b->batch[axis] == 1;
    const bool continues = a->batch[axis] == 1 || *rows == 1 ||
                           a->batch_strides[axis] == *rows * a->matrix.row;
    if (!same_b || !continues) break;
    if (*rows == 1) a->matrix.row = a->batch_strides[axis];
    *rows *= a->batch[axis];
  }
  a->KeepBatch(kept);
  if (b->batch.rank() > 0) b->KeepBatch(kept);
}

template <typename T>
void RunTyped(const Launch& launch, ThreadPool& pool) {
  const TensorView& y = launch.outputs[0];
  Operand<T> a =
      MakeOperand<T>(launch.inputs[0], launch.attrs->Int("transpose_a") == 1);
  Operand<T> b =
      MakeOperand<T>(launch.inputs[1], launch.attrs->Int("transpose_b") == 1);
  const bool a_transposed = launch.attrs->Int("transpose_a") == 1;
  const Shape& a_shape = launch.inputs[0].shape();
  const int64_t depth = a_shape[a_shape.rank() - (a_transposed ? 2 : 1)];
  const int64_t columns = y.shape().back();
  int64_t rows = y.shape()[y.shape().rank() - 2];
  FoldBatchIntoRows(&a, &b, &rows);
  const int64_t matrices = a.batch.num_elements();

  const int64_t strips = CeilDiv(columns, kStripColumns<T>);
  const int64_t task_rows = RowsPerTask(rows, matrices * strips);
  const int64_t row_chunks = CeilDiv(rows, task_rows);
  pool.ParallelFor(
      matrices * row_chunks * strips, [&](int64_t task, int thread) {
        const int64_t column = task % strips * kStripColumns<T>;
        const int64_t row = task / strips % row_chunks * task_rows;
        const int64_t matrix = task / strips / row_chunks;
        const int64_t m = std::min(task_rows, rows - row);
        const int64_t n = std::min(kStripColumns<T>, columns - column);
        Strided<T> from_a = a.matrix;
        from_a.data += a.BatchOffset(matrix);
        Strided<T> from_b = b.matrix;
        from_b.data += b.BatchOffset(matrix);
        const Rows<T> to = {
            y.as<T>() + (matrix * rows + row) * columns + column, columns};
        T* packed = reinterpret_cast<T*>(launch.workspace.data()) +
                    thread * StripElements<T>(depth);
        ProductTask<T>(m, n, depth, from_a.At(row, 0), from_b.At(0, column), to,
                       /*accumulate=*/false, packed);
      });
}

StepCode RunMatMul(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(),
          [&](auto zero) { RunTyped<decltype(zero)>(launch, pool); });
  return StepCode::kOk;
}

Bytes MatMulWorkspace(const OpArgs& args, std::span<const TensorType>,
                      int threads) {
  const Shape& a = args.shape(0);
  const int64_t depth =
      a[a.rank() - (args.attrs.Int("transpose_a") == 1 ? 2 : 1)];
  return OnFloat(args.type(0).dtype, [&](auto zero) -> Bytes {
    using T = decltype(zero);
    return threads * StripElements<T>(depth) * SizeOf(DTypeOf<T>());
  });
}

}  // namespace

namespace kernels {

constinit const CpuKernel MatMul = {.run = RunMatMul,
                                    .workspace = MatMulWorkspace};

}  // namespace kernels
}  // namespace stowage::cpu
