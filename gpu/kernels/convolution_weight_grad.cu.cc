// conv_weight_grad as a product of large tiles: 16-bit types by tensor cores, f32 by
// FMAs.
//
// A row is a filter, a column a channel of x and an element of the kernel; the sums run
// over the elements of dy of all images, which are the depth. What these say of x and dy
// is worked out once for a block, in a table for each step, by a warp each for as many
// steps; what the columns say, once. Where images of dy have whole chunks of 16 bytes,
// those come asynchronously.

#include <cstdint>

#include "gpu/kernels/conv_meetings.h"
#include "gpu/kernels/conv_products.h"
#include "gpu/kernels/conv_walks.h"
#include "gpu/kernels/convolution.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/queue.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

// What a block makes, of which elements of dy.
struct BlockWork {
  int first_row, first_column, rows_left, columns, group;
  int64_t piece, begin, end;  // elements, of all images

  BlockWork() = default;
  // Blocks run over rows, columns, groups, pieces.
  STOWAGE_DEVICE BlockWork(const ConvWeightGradParams& p, int rows,
                           int columns_at_once) {
    const ConvShapes& s = p.shapes;
    first_row = static_cast<int>(BlockId() % p.row_blocks) * rows;
    int64_t rest = BlockId() / p.row_blocks;
    first_column = static_cast<int>(rest % p.column_blocks) * columns_at_once;
    rest /= p.column_blocks;
    group = static_cast<int>(rest % s.groups);
    piece = rest / s.groups;
    rows_left = s.filters - first_row;
    columns = s.channels * s.kernel_size;
    const int64_t size = p.piece_units * ConvPieces::kUnit;
    const int64_t all = s.images * s.out_size;
    begin = piece * size;
    end = begin + size < all ? begin + size : all;
  }
};

template <typename T, int kRows, int kColumns>
STOWAGE_KERNEL(kConvThreads, kConvBlocks<T, kRows>)
WeightGradProduct(STOWAGE_PARAMS(ConvWeightGradParams) p) {
  constexpr int kDepth = kConvDepth<T>;
  using TileA = ConvTile<T, kRows>;
  using TileB = ConvTile<T, kColumns>;
  using GatherA = GatherByDepth<T, kRows>;
  using GatherB = GatherByDepth<T, kColumns>;
  using Sums = ConvSums<T, kRows, kColumns>;
  STOWAGE_SHARED(T, a, 2 * TileA::kElements);
  STOWAGE_SHARED(T, b, 2 * TileB::kElements);
  STOWAGE_SHARED(TapPlace, columns_at, kColumns);
  // Of the depths: where an element lies in row 0 of dy, below 0: nowhere; where it
  // meets x.
  STOWAGE_SHARED(int64_t, dy_at, kConvTables * kDepth);
  STOWAGE_SHARED(int64_t, x_at, kConvTables * kDepth);
  STOWAGE_SHARED(uint32_t, outside, kConvTables * kDepth);
  STOWAGE_SHARED(BlockWork, blocks, 1);

  const ConvShapes& s = p.shapes;
  if (ThreadId() == 0) blocks[0] = BlockWork(p, kRows, kColumns);
  SyncThreads();
  const BlockWork& block = blocks[0];
  const int steps =
      static_cast<int>((block.end - block.begin + kDepth - 1) / kDepth);

  if (ThreadId() < kColumns) {
    const int column = block.first_column + ThreadId();
    TapPlace place = {0, kNowhere};
    if (column < block.columns) {
      place = PlaceOfTap(ForwardWalks(s), column % s.kernel_size);
      place.at += column / s.kernel_size * s.in_size;
    }
    columns_at[ThreadId()] = place;
  }
  // A warp works out the depths of a step.
  const auto write_table = [&](int step) {
    if (step >= steps || Lane() >= kDepth) return;
    const int64_t number = block.begin + int64_t{step} * kDepth + Lane();
    const int to = step % kConvTables * kDepth + Lane();
    dy_at[to] = -1;
    outside[to] = ~uint32_t{0};
    if (number >= block.end) return;
    const int64_t image = number / s.out_size * s.groups + block.group;
    const int element = static_cast<int>(number % s.out_size);
    const ElementPlace place = PlaceOfElement(ForwardWalks(s), element);
    dy_at[to] = (image * s.filters + block.first_row) * s.out_size + element;
    x_at[to] = image * s.channels * s.in_size + place.at;
    outside[to] = place.outside;
  };

  GatherA gather_a{};
  GatherB gather_b{};
  const auto load_x = [&](int step) {
    const int table = step % kConvTables * kDepth + GatherB::FirstDepth();
    const T* x[GatherB::kPer];
    uint32_t beyond[GatherB::kPer];
    STOWAGE_UNROLL
    for (int e = 0; e < GatherB::kPer; ++e) {
      beyond[e] = outside[table + e];
      x[e] = static_cast<const T*>(p.x) +
             (beyond[e] == ~uint32_t{0} ? 0 : x_at[table + e]);
    }
    const TapPlace* columns = &columns_at[0] + GatherB::FirstRow();
    STOWAGE_UNROLL
    for (int i = 0; i < GatherB::kCount; ++i) {
      const TapPlace column = columns[i * GatherB::kApart];
      STOWAGE_UNROLL
      for (int e = 0; e < GatherB::kPer; ++e) {
        const bool meets = (beyond[e] & column.bits) == 0;
        gather_b.held[i][e] = meets ? x[e][column.at] : T{};
      }
    }
  };
  const auto copy_dy = [&](int step) {  // whole chunks of 16 bytes
    constexpr int kChunks = kDepth / 8;
    constexpr int kApart = kConvThreads / kChunks;
    const T* dy = static_cast<const T*>(p.dy);
    const int thread = NotInAdvance(ThreadId());
    const int row = thread / kChunks;
    const int depth = thread % kChunks * 8;
    T* to = &a[step % 2 * TileA::kElements] + TileA::At(row, depth);
    const int64_t at = dy_at[step % kConvTables * kDepth + depth];
    STOWAGE_UNROLL
    for (int i = 0; i < kRows / kApart; ++i) {
      const bool valid = at >= 0 && row + i * kApart < block.rows_left;
      const int64_t from = at + int64_t{row + i * kApart} * s.out_size;
      CopyAsyncZero16(to + i * kApart * kDepth, valid ? dy + from : dy, valid);
    }
    CopyAsyncCommit();
  };
  const auto load_dy = [&](int step) {
    const int table = step % kConvTables * kDepth + GatherA::FirstDepth();
    const int first_row = GatherA::FirstRow();
    const int apart = NotInAdvance(s.out_size) * GatherA::kApart;
    const int rows = block.rows_left - first_row;
    const T* dy[GatherA::kPer];
    bool exists[GatherA::kPer];
    STOWAGE_UNROLL
    for (int e = 0; e < GatherA::kPer; ++e) {
      const int64_t at = dy_at[table + e];
      exists[e] = at >= 0;
      dy[e] =
          static_cast<const T*>(p.dy) + at + int64_t{first_row} * s.out_size;
    }
    gather_a.Load([&](int i, int e) {
      return exists[e] && i * GatherA::kApart < rows ? dy[e][i * apart] : T{};
    });
  };
  const bool copies = TileA::kTensor && p.packed;

  Sums sums;
  sums.Clear();
  write_table(Warp());
  SyncThreads();
  // Half of a product hides the loads of one operand.
  for (int step = -1; step < steps; ++step) {
    const int next = step + 1;
    const T* a_now = &a[(step & 1) * TileA::kElements];
    const T* b_now = &b[(step & 1) * TileB::kElements];
    if (next < steps) {
      if (copies) copy_dy(next);
      load_x(next);
    }
    if (step >= 0) sums.template AddHalf<0>(a_now, b_now);
    if (next < steps) {
      gather_b.Store(&b[(next & 1) * TileB::kElements]);
      if (!copies) load_dy(next);
    }
    if (step >= 0) sums.template AddHalf<1>(a_now, b_now);
    if (next < steps && !copies) {
      gather_a.Store(&a[(next & 1) * TileA::kElements]);
    }
    if (step >= 0 && step % kConvWarps == 0) {
      write_table(step + kConvWarps + Warp());
    }
    CopyAsyncWait<0>();
    SyncThreads();
  }

  const int64_t first =
      (int64_t{block.group} * s.filters + block.first_row) * block.columns +
      block.first_column;
  T* const dw = static_cast<T*>(p.dw);
  STOWAGE_UNROLL
  for (int i = 0; i < Sums::kOwnRows; ++i) {
    const int row = Sums::Row(i);
    if (row >= block.rows_left) continue;
    STOWAGE_UNROLL
    for (int pair = 0; pair < Sums::kPairs; ++pair) {
      STOWAGE_UNROLL
      for (int e = 0; e < 2; ++e) {
        const int column = Sums::Column(pair) + e;
        if (block.first_column + column >= block.columns) continue;
        const int64_t at = first + int64_t{row} * block.columns + column;
        if (p.pieces == 1) {
          dw[at] = FromFloat<T>(sums.Value(i, pair, e));
        } else {
          p.sums[block.piece * p.size + at] = sums.Value(i, pair, e);
        }
      }
    }
  }
}

}  // namespace

void EnqueueWeightGradProduct(Queue& queue, DType dtype,
                              ConvWeightGradParams params) {
  const ConvShapes& s = params.shapes;
  const int64_t columns = int64_t{s.channels} * s.kernel_size;
  const int64_t count = s.groups * params.pieces;
  const ConvTileSize tile = ChooseConvTile(s.filters, columns, count);
  params.row_blocks = CeilDiv(s.filters, tile.rows);
  params.column_blocks = CeilDiv(columns, tile.columns);
  params.packed = s.out_size % 8 == 0 && IsPackAligned(params.dy);
  const Grid grid = {.x = static_cast<uint32_t>(params.row_blocks *
                                                params.column_blocks * count)};
  OnFloat(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto kernel) {
      LaunchKernel(queue, "conv_weight_grad", kernel, params, grid,
                   kConvThreads);
    };
    if (tile.rows == 128) return launch(WeightGradProduct<T, 128, 128>);
    if (tile.columns == 128) return launch(WeightGradProduct<T, 64, 128>);
    launch(WeightGradProduct<T, 64, 64>);
  });
}

}  // namespace stowage::gpu
