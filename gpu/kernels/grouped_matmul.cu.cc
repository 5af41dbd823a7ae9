// grouped_matmul and the gradient of its matrices, in tiles of 64 by 64 that 256 threads
// make of tiles of their operands in shared memory, 4 by 4 elements a thread. Borders of
// groups are known on the device alone: so many tiles are launched as any borders may
// want, and each finds its group by the ends.

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/simt.h"

namespace stowage::gpu {
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

// Of a group; one that falls, or leaves the rows, is a fault, and cut.
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

// Adds to sums what `depth` numbers of a(i, k) and b(k, j) give, i and j within the tile.
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

// Rows [first, first + rows) of c, from column `column` on, of those that there are.
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

// A tile of rows lies in one group, or behind the last.
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

// A tile of one matrix's gradient: a is x (rows, m), b is dy (rows, n).
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
  // Each group, and what lies behind them, may end in a part of a tile.
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

// Blocks are numbered by 31 bits.
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

constinit const GpuKernel GroupedMatMul = {.enqueue = EnqueueGroupedMatMul,
                                           .excess = Excess};
constinit const GpuKernel GroupedMatMulWeightGrad = {
    .enqueue = EnqueueWeightGrad, .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
