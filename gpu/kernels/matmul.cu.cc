// matmul and epilogue_matmul by the matmuls of the queue, and grouped_matmul by kernels.
//
// Leading dimensions become rows of `a` if b is the same matrix along them, else one batch,
// else separate matmuls. An epilogue that the device's library lacks is computed by kernels
// after the matmul.

#include "gpu/kernels/matmul.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/attrs.h"
#include "ir/fused.h"
#include "ir/op_def.h"

namespace stowage::gpu {
namespace {

bool Transposed(const Attrs& attrs, int i) {
  return attrs.Int(i == 0 ? "transpose_a" : "transpose_b") == 1;
}

// The last two dimensions of x. A column-major matrix is the transpose of a row-major one.
MatrixOperand OperandOf(const TensorView& x, bool transposed) {
  const int row = x.shape().rank() - 2;
  const int column = row + 1;
  const bool row_major =
      x.strides[column] == 1 &&
      (x.shape()[row] == 1 || x.strides[row] >= x.shape()[column]);
  const int lead = row_major ? row : column;  // its stride is the matrix's
  const int along = row_major ? column : row;
  // The stride along a dimension of 1 is arbitrary.
  const int64_t stride =
      x.shape()[lead] == 1 ? x.shape()[along] : x.strides[lead];
  return {
      .data = x.data, .stride = stride, .transposed = transposed == row_major};
}

// A leading dimension, or several merged ones: the number of matrices, and their distances
// in a, b and c.
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

// Merges the innermost level into the rows of a and c, if they continue there.
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

// The matmuls of a launch.
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

// The sums of an operand if the library lacks them: its reduce_sum, after the matmul, in the
// matmul's scratch.
Attrs SumOver(int axis) {
  return {{"axes", std::vector<int64_t>{axis}}, {"keep", int64_t{0}}};
}

// The workspace of the sums is subtracted: a matmul with sums needs no more than without.
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

// --- grouped_matmul and the gradient of its matrices: tiles of 64 by 64, by blocks of 256
// threads with 4 by 4 elements each. The borders of groups are known on the device only: as
// many tiles are launched as any borders may need, and each finds its group by the ends. ---

namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;   // rows, and columns
constexpr int kDepth = 16;  // of a step
constexpr int kOwn = 4;     // rows and columns of a thread
constexpr int kAcross = kTile / kOwn;

struct GroupedParams {
  const void* a;
  const void* b;
  void* c;
  Indices ends;
  int64_t rows;  // in groups, and behind them
  int32_t groups;
  int32_t m, n;  // of a result; m is not the rows of a group
  int32_t k;
  int32_t b_row, b_column;  // steps of w's elements
  int32_t row_tiles, column_tiles;
  FaultSlot fault;
};

struct Range {
  int64_t begin, end;
};

// The rows of a group. A decreasing end, or one beyond the rows, is a fault and is clamped.
STOWAGE_DEVICE Range GroupOf(const GroupedParams& p, int group) {
  const int64_t begin = group == 0 ? 0 : p.ends.At(group - 1);
  const int64_t end = p.ends.At(group);
  const bool good = begin >= 0 && end >= begin && end <= p.rows;
  if (!good) ReportFault(p.fault);
  return good ? Range{begin, end} : Range{0, 0};
}

// This thread's elements of a tile: rows and columns from these on.
STOWAGE_DEVICE int OwnRow() { return ThreadId() / kAcross * kOwn; }
STOWAGE_DEVICE int OwnColumn() { return ThreadId() % kAcross * kOwn; }

// Adds a(i, k) b(k, j) over `depth` values of k to the sums; i and j are within the tile.
template <typename A, typename B>
STOWAGE_DEVICE void AddProducts(const A& a, const B& b, int64_t depth,
                                float (&sums)[kOwn][kOwn]) {
  STOWAGE_SHARED(float, a_tile, kDepth* kTile);  // k, row
  STOWAGE_SHARED(float, b_tile, kDepth* kTile);  // k, column
  const int row = OwnRow(), column = OwnColumn();
  for (int64_t first = 0; first < depth; first += kDepth) {
    SyncThreads();  // the tiles before have been used
    for (int i = ThreadId(); i < kDepth * kTile; i += kThreads) {
      const int64_t k = first + i / kTile;
      const int at = i % kTile;
      a_tile[i] = k < depth ? a(at, k) : 0.0f;
      b_tile[i] = k < depth ? b(k, at) : 0.0f;
    }
    SyncThreads();
    STOWAGE_UNROLL_BY(4)
    for (int k = 0; k < kDepth; ++k) {
      float x[kOwn], y[kOwn];
      STOWAGE_UNROLL
      for (int i = 0; i < kOwn; ++i) {
        x[i] = a_tile[k * kTile + row + i];
        y[i] = b_tile[k * kTile + column + i];
      }
      STOWAGE_UNROLL
      for (int i = 0; i < kOwn; ++i) {
        STOWAGE_UNROLL
        for (int j = 0; j < kOwn; ++j) sums[i][j] += x[i] * y[j];
      }
    }
  }
}

// Stores rows [first, first + rows) of c from column `column` on, as far as they exist.
template <typename T>
STOWAGE_DEVICE void StoreTile(const GroupedParams& p, T* c, int64_t rows,
                              int column, const float (&sums)[kOwn][kOwn]) {
  STOWAGE_UNROLL
  for (int i = 0; i < kOwn; ++i) {
    const int row = OwnRow() + i;
    STOWAGE_UNROLL
    for (int j = 0; j < kOwn; ++j) {
      const int at = column + OwnColumn() + j;
      if (row < rows && at < p.n) {
        c[int64_t{row} * p.n + at] = FromFloat<T>(sums[i][j]);
      }
    }
  }
}

// A tile of rows is in one group, or beyond the last.
template <typename T>
STOWAGE_KERNEL(kThreads)
GroupedRows(STOWAGE_PARAMS(GroupedParams) p) {
  int tile = BlockId() / p.column_tiles;
  const int column = BlockId() % p.column_tiles * kTile;
  int group = 0;
  Range own = {0, 0};
  int64_t end = 0;  // of the groups so far
  for (; group <= p.groups; ++group) {
    own = group < p.groups ? GroupOf(p, group) : Range{end, p.rows};
    end = own.end > end ? own.end : end;
    const auto tiles =
        static_cast<int>((own.end - own.begin + kTile - 1) / kTile);
    if (tile < tiles) break;
    tile -= tiles;
  }
  if (group > p.groups) return;
  const int64_t first = own.begin + int64_t{tile} * kTile;
  const int64_t rows = own.end - first;
  float sums[kOwn][kOwn] = {};
  if (group < p.groups) {
    const T* x = static_cast<const T*>(p.a) + first * p.k;
    const T* w = static_cast<const T*>(p.b) + int64_t{group} * p.k * p.n;
    AddProducts(
        [&](int i, int64_t k) {
          return i < rows ? ToFloat(x[int64_t{i} * p.k + k]) : 0.0f;
        },
        [&](int64_t k, int j) {
          const int64_t at = column + j;
          return at < p.n ? ToFloat(w[k * p.b_row + at * p.b_column]) : 0.0f;
        },
        p.k, sums);
  }
  StoreTile(p, static_cast<T*>(p.c) + first * p.n, rows, column, sums);
}

// A tile of the gradient of one matrix: a is x (rows, m), b is dy (rows, n).
template <typename T>
STOWAGE_KERNEL(kThreads)
GroupedWeightGrad(STOWAGE_PARAMS(GroupedParams) p) {
  const int column = BlockId() % p.column_tiles * kTile;
  const int row = BlockId() / p.column_tiles % p.row_tiles * kTile;
  const int group = BlockId() / p.column_tiles / p.row_tiles;
  const Range own = GroupOf(p, group);
  const int rows = p.m - row, columns = p.n - column;
  const T* x = static_cast<const T*>(p.a) + own.begin * p.m + row;
  const T* dy = static_cast<const T*>(p.b) + own.begin * p.n + column;
  float sums[kOwn][kOwn] = {};
  AddProducts(
      [&](int i, int64_t k) {
        return i < rows ? ToFloat(x[k * p.m + i]) : 0.0f;
      },
      [&](int64_t k, int j) {
        return j < columns ? ToFloat(dy[k * p.n + j]) : 0.0f;
      },
      own.end - own.begin, sums);
  StoreTile(p, static_cast<T*>(p.c) + (int64_t{group} * p.m + row) * p.n, rows,
            column, sums);
}

int32_t Tiles(int64_t n) {
  return static_cast<int32_t>((n + kTile - 1) / kTile);
}

void EnqueueGroupedMatMul(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const bool transposed = launch.attrs->Int("transpose_w") == 1;
  const auto k = static_cast<int32_t>(x.shape()[1]);
  const auto n = static_cast<int32_t>(y.shape()[1]);
  GroupedParams p = {.a = x.data,
                     .b = w.data,
                     .c = y.data,
                     .ends = Indices(launch.inputs[2]),
                     .rows = x.shape()[0],
                     .groups = static_cast<int32_t>(w.shape()[0]),
                     .m = 0,
                     .n = n,
                     .k = k,
                     .b_row = transposed ? 1 : n,
                     .b_column = transposed ? k : 1,
                     .row_tiles = 0,
                     .column_tiles = Tiles(n),
                     .fault = queue.fault()};
  // Each group, and the rows after them, may end with a partial tile.
  p.row_tiles = Tiles(p.rows) + p.groups + 1;
  OnFloat(x.dtype(), [&](auto zero) {
    LaunchKernel(queue, "grouped_matmul", GroupedRows<decltype(zero)>, p,
                 {.x = static_cast<uint32_t>(p.row_tiles * p.column_tiles)},
                 kThreads);
  });
}

void EnqueueWeightGrad(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const TensorView& dy = launch.inputs[1];
  const TensorView& dw = launch.outputs[0];
  const GroupedParams p = {.a = x.data,
                           .b = dy.data,
                           .c = dw.data,
                           .ends = Indices(launch.inputs[2]),
                           .rows = x.shape()[0],
                           .groups = static_cast<int32_t>(dw.shape()[0]),
                           .m = static_cast<int32_t>(x.shape()[1]),
                           .n = static_cast<int32_t>(dy.shape()[1]),
                           .k = 0,
                           .b_row = 0,
                           .b_column = 0,
                           .row_tiles = Tiles(x.shape()[1]),
                           .column_tiles = Tiles(dy.shape()[1]),
                           .fault = queue.fault()};
  OnFloat(x.dtype(), [&](auto zero) {
    LaunchKernel(
        queue, "grouped_matmul_weight_grad", GroupedWeightGrad<decltype(zero)>,
        p,
        {.x = static_cast<uint32_t>(p.row_tiles * p.column_tiles * p.groups)},
        kThreads);
  });
}

// Block numbers have 31 bits.
std::string Excess(const OpArgs& args) {
  constexpr int64_t kMaxElements = int64_t{1} << 37;
  for (const int i : {0, 1}) {
    const int64_t elements = args.shape(i).num_elements();
    if (elements < kMaxElements) continue;
    return StrCat(args.Describe(i), " and has ", elements,
                  " elements; expected fewer than ", kMaxElements);
  }
  return "";
}

}  // namespace

namespace kernels {

constinit const GpuKernel MatMul = {.enqueue = EnqueueProduct,
                                    .workspace = Workspace};
constinit const GpuKernel EpilogueMatMul = {.enqueue = EnqueueEpilogueProduct,
                                            .workspace = EpilogueWorkspace};

constinit const GpuKernel GroupedMatMul = {.enqueue = EnqueueGroupedMatMul,
                                           .excess = Excess};
constinit const GpuKernel GroupedMatMulWeightGrad = {
    .enqueue = EnqueueWeightGrad, .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
