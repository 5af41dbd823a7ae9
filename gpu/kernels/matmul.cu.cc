// matmul and epilogue_matmul: the queue computes products; this says which. Leading
// dimensions become rows of `a` where b is the same matrix along them, else one batch,
// else a product each. An epilogue that the device's library lacks is made of kernels
// behind the product.

#include "gpu/kernels/matmul.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "gpu/kernel.h"
#include "gpu/queue.h"
#include "ir/attrs.h"
#include "ir/fused.h"
#include "ir/op_def.h"

namespace stowage::gpu {
namespace {

bool Transposed(const Attrs& attrs, int i) {
  return attrs.Int(i == 0 ? "transpose_a" : "transpose_b") == 1;
}

// The last two dimensions of x. What lies column after column is the transpose
// of a matrix that lies row after row.
MatrixOperand OperandOf(const TensorView& x, bool transposed) {
  const int row = x.shape().rank() - 2;
  const int column = row + 1;
  const bool row_major =
      x.strides[column] == 1 &&
      (x.shape()[row] == 1 || x.strides[row] >= x.shape()[column]);
  const int lead = row_major ? row : column;  // its stride is the matrix's
  const int along = row_major ? column : row;
  // The stride along a dimension of 1 says nothing.
  const int64_t stride =
      x.shape()[lead] == 1 ? x.shape()[along] : x.strides[lead];
  return {
      .data = x.data, .stride = stride, .transposed = transposed == row_major};
}

// A leading dimension, or several that are one: how many matrices, and how far
// apart they are in a, b and c.
struct Level {
  int64_t size, a, b, c;
};
struct Levels {
  std::array<Level, kMaxRank> level;
  int count = 0;  // innermost first
};

Levels LevelsOf(const TensorView& a, const TensorView& b, const TensorView& c) {
  Levels levels;
  for (int axis = c.shape().rank() - 3; axis >= 0; --axis) {
    const bool shares_b = b.shape().rank() == 2;
    const Level next = {c.shape()[axis], a.strides[axis],
                        shares_b ? 0 : b.strides[axis], c.strides[axis]};
    if (next.size == 1) continue;
    if (levels.count > 0) {
      Level& last = levels.level[static_cast<size_t>(levels.count - 1)];
      if (next.a == last.size * last.a && next.b == last.size * last.b &&
          next.c == last.size * last.c) {
        last.size *= next.size;
        continue;
      }
    }
    levels.level[static_cast<size_t>(levels.count++)] = next;
  }
  return levels;
}

// Takes the innermost level into the rows of a and c, if they continue there.
void FoldIntoRows(Levels* levels, MatMulCall* call) {
  if (levels->count == 0 || call->a.transposed) return;
  const Level& level = levels->level[0];
  if (level.b != 0 || level.c != call->m * call->c_stride) return;
  if (call->m == 1) {
    if (level.a < call->k) return;
    call->a.stride = level.a;
  } else if (level.a != call->m * call->a.stride) {
    return;
  }
  call->m *= level.size;
  std::copy(levels->level.begin() + 1, levels->level.end(),
            levels->level.begin());
  --levels->count;
}

// The products of a launch.
struct Products {
  MatMulCall call;  // the first
  Levels levels;
  int from = 0;  // of the levels, those that are products of their own
  Bytes element = 0;

  // Calls fn(call) for each.
  template <typename Fn>
  void ForEach(const Fn& fn) const {
    ForEach(call, from, fn);
  }
  template <typename Fn>
  void ForEach(MatMulCall at, int next, const Fn& fn) const {
    if (next == levels.count) return fn(at);
    const Level& level = levels.level[static_cast<size_t>(next)];
    const auto advance = [](const auto** data, int64_t bytes) {
      if (*data != nullptr) *data += bytes;
    };
    for (int64_t i = 0; i < level.size; ++i) {
      ForEach(at, next + 1, fn);
      at.a.data += level.a * element;
      at.b.data += level.b * element;
      at.c += level.c * element;
      advance(&at.epilogue.addend, level.c * element);
      advance(&at.epilogue.gelu_x, level.c * element);
    }
  }
};

Bytes Workspace(const OpArgs&, std::span<const TensorType> results) {
  return MatMulWorkspace(results[0].shape.num_elements());
}

// An operand's sums where the library lacks them: its reduce_sum, behind the product and
// in its scratch.
Attrs SumOver(int axis) {
  return {{"axes", std::vector<int64_t>{axis}}, {"keep", int64_t{0}}};
}

// What the sums take is taken off: with them a product needs no more than without.
Bytes EpilogueWorkspace(const OpArgs& args,
                        std::span<const TensorType> results) {
  const Bytes product = Workspace(args, results);
  const std::optional<SummedOperand> summed = SummedOperandOf(args.attrs);
  if (!summed) return product;
  const Attrs attrs = SumOver(summed->axis);
  const OpArgs sum = {.op = OpKind::kReduceSum,
                      .types = args.types.subspan(summed->place, 1),
                      .names = {},
                      .attrs = attrs};
  return std::max(product - AlignUp(results[1].bytes(), kSlotAlignment),
                  GetKernel(sum.op).workspace(sum, results.subspan(1)));
}

Products ProductsOf(const Launch& launch) {
  const TensorView& a = launch.inputs[0];
  const TensorView& b = launch.inputs[1];
  const TensorView& c = launch.outputs[0];
  const bool a_transposed = Transposed(*launch.attrs, 0);
  const int rank = a.shape().rank();
  MatMulCall call = {
      .dtype = c.dtype(),
      .m = c.shape()[rank - 2],
      .n = c.shape()[rank - 1],
      .k = a.shape()[rank - (a_transposed ? 2 : 1)],
      .a = OperandOf(a, a_transposed),
      .b = OperandOf(b, Transposed(*launch.attrs, 1)),
      .c = c.data,
      .c_stride = c.shape().back(),
      .workspace = launch.workspace.data(),
      .workspace_bytes = static_cast<Bytes>(launch.workspace.size())};
  Levels levels = LevelsOf(a, b, c);
  FoldIntoRows(&levels, &call);
  if (levels.count > 0) {  // the largest is the batch
    const auto begin = levels.level.begin();
    const auto end = begin + levels.count;
    std::iter_swap(
        begin, std::max_element(begin, end, [](const Level& x, const Level& y) {
          return x.size < y.size;
        }));
    call.batch = begin->size;
    call.a.batch_stride = begin->a;
    call.b.batch_stride = begin->b;
    call.c_batch_stride = begin->c;
  }
  return {.call = call,
          .levels = levels,
          .from = std::min(levels.count, 1),
          .element = SizeOf(c.dtype())};
}

// y = op(x0, x1), elementwise.
void EnqueueElementwise(OpKind op, const TensorView& x0, const TensorView& x1,
                        const TensorView& y, Queue& queue) {
  const Attrs attrs;
  const TensorView inputs[] = {x0, x1};
  Launch launch;
  launch.op = op;
  launch.attrs = &attrs;
  launch.inputs = inputs;
  launch.outputs = std::span(&y, 1);
  GetKernel(op).enqueue(launch, queue);
}

void EnqueueSums(const Launch& product, const SummedOperand& summed,
                 Queue& queue) {
  const Attrs attrs = SumOver(summed.axis);
  Launch launch = product;
  launch.op = OpKind::kReduceSum;
  launch.attrs = &attrs;
  launch.inputs = product.inputs.subspan(summed.place, 1);
  launch.outputs = product.outputs.subspan(1, 1);
  GetKernel(launch.op).enqueue(launch, queue);
}

void EnqueueEpilogueProduct(const Launch& launch, Queue& queue) {
  Products products = ProductsOf(launch);
  MatMulEpilogue& epilogue = products.call.epilogue;
  const EpilogueOperands at = EpilogueOperandsOf(*launch.attrs);
  const auto data_of = [&](size_t place) -> const std::byte* {
    return place == 0 ? nullptr : launch.inputs[place].data;
  };
  epilogue = {.bias = data_of(at.bias),
              .addend = data_of(at.addend),
              .gelu_x = data_of(at.x)};
  const std::optional<SummedOperand> summed = SummedOperandOf(*launch.attrs);
  if (summed) {
    (summed->place == 0 ? epilogue.a_sums : epilogue.b_sums) =
        launch.outputs[1].data;
  }
  bool takes = true;
  products.ForEach(
      [&](const MatMulCall& call) { takes = takes && queue.Takes(call); });
  if (!takes) epilogue = {.addend = epilogue.addend};
  products.ForEach([&](const MatMulCall& call) { queue.MatMul(call); });
  if (takes) return;
  const TensorView& y = launch.outputs[0];
  if (at.bias != 0) {
    TensorView rows = {.data = launch.inputs[at.bias].data,
                       .type = y.type,
                       .strides = y.strides};
    const int last = y.shape().rank() - 1;
    for (int axis = 0; axis < last; ++axis) rows.strides[axis] = 0;
    EnqueueElementwise(OpKind::kAdd, y, rows, y, queue);
  }
  if (at.x != 0) {
    EnqueueElementwise(OpKind::kGeluTanhGrad, launch.inputs[at.x], y, y, queue);
  }
  if (summed) EnqueueSums(launch, *summed, queue);
}

}  // namespace

void EnqueueProduct(const Launch& launch, Queue& queue) {
  ProductsOf(launch).ForEach(
      [&](const MatMulCall& call) { queue.MatMul(call); });
}

namespace kernels {

constinit const GpuKernel MatMul = {.enqueue = EnqueueProduct,
                                    .workspace = Workspace};
constinit const GpuKernel EpilogueMatMul = {.enqueue = EnqueueEpilogueProduct,
                                            .workspace = EpilogueWorkspace};

}  // namespace kernels
}  // namespace stowage::gpu
