#ifndef STOWAGE_CPU_KERNELS_MATMUL_H_
#define STOWAGE_CPU_KERNELS_MATMUL_H_

// Computes the batched matmul of a node's first two operands. The tail of a node is the operations
// that follow its matmul, such as adding a bias. It is applied to a few rows of a task at a time
// while they are in the cache. A task (gemm.h) computes a chunk of rows and a strip of columns of
// one matrix. For f16 and bf16, a task converts a strip of b and a few rows of a at a time to f32,
// and rounds each sum once.
//
//   RunProduct<float>(launch, pool, blocking, launch.outputs[0], NoTail<float>());

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "cpu/blocking.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/thread_pool.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

namespace stowage::cpu {
namespace internal {

// An operand, which is a batch of matrices.
template <typename T>
struct Operand {
  Strided<T> matrix;
  Shape batch;
  Strides batch_strides;

  // Keeps only the first `rank` batch dimensions.
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
  // The stride of a dimension of size 1 is arbitrary. This sets a value that contiguous
  // operands have.
  if (x.shape()[row] == 1) operand.matrix.row = x.shape()[column];
  if (x.shape()[column] == 1) operand.matrix.column = 1;
  if (transposed) std::swap(operand.matrix.row, operand.matrix.column);
  return operand;
}

// Merges batch dimensions of `a` into its rows, beginning with the last dimension. Stops at a
// dimension that does not continue the rows of `a` in memory, or along which `b` has more than one
// matrix. Adjusts `rows` and the batch dimensions of both operands.
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

// The matmuls of a launch, after merging: `matrices` matmuls of (rows, depth) by (depth, columns).
template <typename T>
struct ProductOf {
  Operand<T> a, b;
  int64_t matrices, rows, columns, depth;

  explicit ProductOf(const Launch& launch) {
    const bool a_transposed = launch.attrs->Int("transpose_a") == 1;
    const bool b_transposed = launch.attrs->Int("transpose_b") == 1;
    a = MakeOperand<T>(launch.inputs[0], a_transposed);
    b = MakeOperand<T>(launch.inputs[1], b_transposed);
    const Shape& a_shape = launch.inputs[0].shape();
    const Shape& b_shape = launch.inputs[1].shape();
    rows = a_shape[a_shape.rank() - (a_transposed ? 1 : 2)];
    depth = a_shape[a_shape.rank() - (a_transposed ? 2 : 1)];
    columns = b_shape[b_shape.rank() - (b_transposed ? 2 : 1)];
    FoldBatchIntoRows(&a, &b, &rows);
    matrices = a.batch.num_elements();
  }
};

// A matrix of f16 or bf16. Element (i, j) is i * row + j * column elements after the first element.
struct HalfMatrix {
  DType dtype;
  const std::byte* data;
  int64_t row;
  int64_t column;
};

// Converts the block of m rows and n columns that starts at (i, j) to f32, and returns it. The
// block is stored in `wide`, by columns if the columns of `x` are contiguous, and otherwise by
// rows.
inline Strided<float> WidenBlock(const HalfMatrix& x, int64_t i, int64_t j,
                                 int64_t m, int64_t n, float* wide) {
  const std::byte* from = x.data + (i * x.row + j * x.column) * SizeOf(x.dtype);
  const bool by_columns = x.row == 1 && x.column != 1;
  const int64_t lines = by_columns ? n : m;
  const int64_t length = by_columns ? m : n;
  const int64_t step = (by_columns ? x.column : x.row) * SizeOf(x.dtype);
  for (int64_t line = 0; line < lines; ++line) {
    Widen(x.dtype, length, from + line * step, by_columns ? x.row : x.column,
          wide + line * length);
  }
  return {wide, by_columns ? 1 : length, by_columns ? length : 1};
}

// Returns the number of f32 elements in the scratch of HalfTask, for matmuls with this number of
// rows and this depth. The scratch holds a packed strip of b, a conversion buffer of the same size,
// and the sums.
inline int64_t HalfTaskElements(int64_t rows, int64_t depth) {
  return 2 * StripElements<float>(depth) +
         std::min(rows, kMaxTaskRows) * kStripColumns<float>;
}

// Computes the (m, n) elements of one task from `a` and `b`, which are both f16 or both bf16. `to`
// is the first element of the task's result, whose rows are `to_row` elements apart. Calls
// finish(i, sums) for the n sums of each row i before they are rounded.
template <typename FinishRow>
void HalfTask(int64_t m, int64_t n, int64_t k, const HalfMatrix& a,
              const HalfMatrix& b, std::byte* to, int64_t to_row,
              float* scratch, const FinishRow& finish) {
  constexpr int64_t kStrip = kStripColumns<float>;
  float* packed = scratch;
  float* wide = packed + StripElements<float>(k);
  const Rows<float> sums = {wide + StripElements<float>(k), kStrip};
  for (int64_t p = 0; p < k; p += kBlockDepth<float>) {
    const int64_t depth = std::min(kBlockDepth<float>, k - p);
    Pack<float>(depth, n, WidenBlock(b, p, 0, depth, n, wide), packed, kStrip);
    for (int64_t i = 0; i < m; i += kStrip) {
      const int64_t rows = std::min(kStrip, m - i);
      MultiplyStrip<float>(rows, n, depth,
                           WidenBlock(a, i, p, rows, depth, wide),
                           {packed, kStrip, /*padded=*/true}, sums.At(i, 0),
                           p > 0 ? Into::kSum : Into::kNew);
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    finish(i, sums.At(i, 0).data);
    Narrow(a.dtype, n, sums.At(i, 0).data, to + i * to_row * SizeOf(a.dtype));
  }
}

}  // namespace internal

/// The tail of a node that is only a matmul.
template <typename T>
struct NoTail {
  static constexpr bool kTakesRows = false;
  static constexpr bool kTakesSums = false;
  Finish<T> FinishOf(int64_t, int64_t) const { return {}; }
};

/// Computes the matmul of the first two operands of `launch`, divided according to `blocking`,
/// applies `tail`, and stores the result in `y`. `blocking` must be the default for f16 and bf16.
/// The arguments `row` below count the rows of all matrices.
///
/// For f32 and f64, tail.FinishOf(row, column) returns the terms that are added to the elements
/// from that position on. If Tail::kTakesRows is true, tail.For(row, column, n, m) is called for
/// each task, where m and n are its numbers of rows and columns. It must return a function f. f(i,
/// rows) is called when rows [i, i + rows) of the task are complete.
///
/// For f16 and bf16, FinishOf is not called. If Tail::kTakesSums is true, tail.FinishRow(row,
/// column, n, sums) is called for each row of a task before its sums are rounded, and For is not
/// called either. Otherwise, For is called as for f32, after all rows of the task have been
/// rounded.
template <typename T, typename Tail>
void RunProduct(const Launch& launch, ThreadPool& pool,
                const Blocking& blocking, const TensorView& y,
                const Tail& tail) {
  using internal::HalfTask;
  using internal::HalfTaskElements;
  const internal::ProductOf<T> product(launch);
  const auto& [a, b, matrices, rows, columns, depth] = product;
  const int64_t all_rows = matrices * rows;

  const int64_t width = StripColumns<T>(blocking);
  const int64_t strips = CeilDiv(columns, width);
  const int64_t task_rows =
      RowsPerTask(blocking, rows, matrices * strips, pool.threads());
  const int64_t row_chunks = CeilDiv(rows, task_rows);
  pool.ParallelFor(matrices * row_chunks * strips, [&](int64_t task,
                                                       int thread) {
    // Structured bindings are not used here. The lambdas below capture these values, which
    // clang 14 does not support for structured bindings in C++20.
    const auto& a = product.a;
    const auto& b = product.b;
    const int64_t rows = product.rows;
    const int64_t columns = product.columns;
    const int64_t depth = product.depth;
    const int64_t column = task % strips * width;
    const int64_t row = task / strips % row_chunks * task_rows;
    const int64_t matrix = task / strips / row_chunks;
    const int64_t m = std::min(task_rows, rows - row);
    const int64_t n = std::min(width, columns - column);
    const int64_t from_a = a.BatchOffset(matrix) + row * a.matrix.row;
    const int64_t from_b = b.BatchOffset(matrix) + column * b.matrix.column;
    const int64_t to = (matrix * rows + row) * columns + column;
    T* const scratch = reinterpret_cast<T*>(launch.workspace.data());
    if constexpr (std::is_same_v<T, float>) {
      if (IsHalf(y.dtype())) {
        const Bytes size = SizeOf(y.dtype());
        HalfTask(m, n, depth,
                 {y.dtype(), launch.inputs[0].data + from_a * size,
                  a.matrix.row, a.matrix.column},
                 {y.dtype(), launch.inputs[1].data + from_b * size,
                  b.matrix.row, b.matrix.column},
                 y.data + to * size, columns,
                 scratch + thread * HalfTaskElements(all_rows, depth),
                 [&]([[maybe_unused]] int64_t i, [[maybe_unused]] float* sums) {
                   if constexpr (Tail::kTakesSums) {
                     tail.FinishRow(matrix * rows + row + i, column, n, sums);
                   }
                 });
        if constexpr (Tail::kTakesRows && !Tail::kTakesSums) {
          const auto after = tail.For(matrix * rows + row, column, n, m);
          for (int64_t i = 0; i < m; i += kTileRows) {
            after(i, std::min(kTileRows, m - i));
          }
        }
        return;
      }
    }
    const auto run = [&](const auto& after) {
      ProductTask<T>(m, n, depth,
                     {a.matrix.data + from_a, a.matrix.row, a.matrix.column},
                     {b.matrix.data + from_b, b.matrix.row, b.matrix.column},
                     {y.as<T>() + to, columns}, /*accumulate=*/false,
                     scratch + thread * StripElements<T>(depth), blocking.packs,
                     tail.FinishOf(matrix * rows + row, column), after);
    };
    if constexpr (Tail::kTakesRows) {
      run(tail.For(matrix * rows + row, column, n, m));
    } else {
      run(nullptr);
    }
  });
}

/// Returns the workspace size of RunProduct.
inline Bytes MatMulWorkspace(const OpArgs& args,
                             std::span<const TensorType> results, int threads) {
  const Shape& a = args.shape(0);
  const int64_t depth =
      a[a.rank() - (args.attrs.Int("transpose_a") == 1 ? 2 : 1)];
  if (IsHalf(args.type(0).dtype)) {
    const Shape& y = results[0].shape;
    return threads *
           internal::HalfTaskElements(y.num_elements() / y.back(), depth) *
           SizeOf(DType::kF32);
  }
  return OnFloat(args.type(0).dtype, [&](auto zero) -> Bytes {
    using T = decltype(zero);
    return threads * StripElements<T>(depth) * SizeOf(DTypeOf<T>());
  });
}

/// Returns the trial by which the blocking of RunProduct is chosen. Returns nullopt for f16 and
/// bf16, if the launch has more than one matrix after batch dimensions are merged into rows, or if
/// ProductTrial returns nullopt.
std::optional<BlockingTrial> MatMulTrial(const Launch& launch, int threads);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_MATMUL_H_
