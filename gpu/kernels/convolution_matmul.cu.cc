// conv, conv_transpose and conv_weight_grad as matmuls of large tiles: 16-bit types by
// tensor cores, f32 by FMAs.
//
// conv and conv_transpose: the depth of the matmul is (channel of the source, tap). The
// offsets in source and filters that follow from a depth are computed once per block, in a
// table for each step, one warp per step; the columns that a thread gathers stay the same.
// Filters are ordered by channel and tap, as steps are: those of conv are loaded 16 bytes at
// a time if aligned.
//
// conv_weight_grad: rows are filters, columns are (channel of x, element of the kernel), the
// depth is the elements of dy of all images. The offsets of a depth are tabled likewise,
// those of a column computed once. If an image of dy is a whole number of 16-byte chunks, dy
// is copied asynchronously.

#include <cstdint>

#include "gpu/kernels/conv_tiles.h"
#include "gpu/kernels/conv_walks.h"
#include "gpu/kernels/convolution.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/queue.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

template <typename T>
struct alignas(2 * sizeof(T)) Two {
  T value[2];
};

// The work of a block, in shared memory since registers hold the sums.
template <bool kTransposed>
struct BlockWork {
  ConvPart<kTransposed> part;
  int elements, taps;    // of the part
  int64_t columns;       // of all images
  int64_t first_column;  // not below `columns` in a phase that is smaller
  int first_row, group;
  int depth, rows_left;
  int64_t filters_at;  // those of the first row

  BlockWork() = default;
  // Blocks run over rows, columns, groups, phases.
  STOWAGE_DEVICE BlockWork(const ConvParams& p, int rows, int columns_at_once) {
    first_row = static_cast<int>(BlockId() % p.row_blocks) * rows;
    int64_t rest = BlockId() / p.row_blocks;
    first_column = rest % p.column_blocks * columns_at_once;
    rest /= p.column_blocks;
    group = static_cast<int>(rest % p.shapes.groups);
    part = ConvPart<kTransposed>(p.shapes,
                                 static_cast<int>(rest / p.shapes.groups));
    elements = part.walks.elements();
    taps = part.walks.taps();
    columns = p.shapes.images * elements;
    depth = part.depth_channels * taps;
    rows_left = part.rows - first_row;
    const ConvShapes& s = p.shapes;
    filters_at = (int64_t{group} * s.filters * s.channels +
                  int64_t{first_row} * (kTransposed ? 1 : s.channels)) *
                 s.kernel_size;
  }
};

template <typename T, bool kTransposed, int kRows, int kColumns>
STOWAGE_KERNEL(kConvThreads, kConvBlocks<T, kRows>)
ConvProduct(STOWAGE_PARAMS(ConvParams) p) {
  constexpr int kDepth = kConvDepth<T>;
  using TileA = ConvTile<T, kRows>;
  using TileB = ConvTile<T, kColumns>;
  using GatherA = GatherByDepth<T, kRows>;
  using GatherB = GatherByColumns<T, kColumns>;
  using Sums = ConvSums<T, kRows, kColumns>;
  STOWAGE_SHARED(T, a, 2 * TileA::kElements);
  STOWAGE_SHARED(T, b, 2 * TileB::kElements);
  STOWAGE_SHARED(TapPlace, places, kConvTables * kDepth);
  STOWAGE_SHARED(int, filters_at,
                 kConvTables* kDepth);  // of a row; below 0: none
  STOWAGE_SHARED(int64_t, columns_at, kColumns);
  STOWAGE_SHARED(BlockWork<kTransposed>, blocks, 1);

  const ConvShapes& s = p.shapes;
  if (ThreadId() == 0) blocks[0] = BlockWork<kTransposed>(p, kRows, kColumns);
  SyncThreads();
  const BlockWork<kTransposed>& block = blocks[0];
  const ConvPart<kTransposed>& part = block.part;
  if (block.first_column >= block.columns) return;
  const int steps = (block.depth + kDepth - 1) / kDepth;

  // A warp works out the depths of a step.
  const auto write_table = [&](int step) {
    if (step >= steps || Lane() >= kDepth) return;
    const int k = step * kDepth + Lane();
    TapPlace place = {0, kNowhere};
    int filter_at = -1;
    if (k < block.depth) {
      const int channel = k / block.taps;
      place = PlaceOfTap(part.walks, k % block.taps);
      place.at += channel * part.source_size;
      filter_at = static_cast<int>(
          part.Filter(s, 0, 0, channel, part.walks.Tap(k % block.taps)));
    }
    places[step % kConvTables * kDepth + Lane()] = place;
    filters_at[step % kConvTables * kDepth + Lane()] = filter_at;
  };

  // The column that this thread gathers.
  const int64_t column = block.first_column + GatherB::Column();
  const T* source = static_cast<const T*>(p.source);
  uint32_t outside = ~uint32_t{0};
  if (column < block.columns) {
    const ElementPlace element =
        PlaceOfElement(part.walks, static_cast<int>(column % block.elements));
    outside = element.outside;
    source += (column / block.elements * s.groups + block.group) *
                  part.depth_channels * part.source_size +
              element.at;
  }
  // The rows of filters.
  const int row_stride =
      kTransposed ? s.kernel_size : s.channels * s.kernel_size;
  GatherA gather_a{};
  GatherB gather_b{};
  const auto load_source = [&](int step) {
    const TapPlace* table =
        &places[step % kConvTables * kDepth] + GatherB::FirstDepth();
    STOWAGE_UNROLL
    for (int i = 0; i < GatherB::kCount; i += 2) {
      const Pack<TapPlace> two = LoadPack(table + i);
      STOWAGE_UNROLL
      for (int e = 0; e < 2; ++e) {
        const bool meets = (outside & two.value[e].bits) == 0;
        gather_b.held[i + e] = meets ? source[two.value[e].at] : T{};
      }
    }
  };
  const auto copy_filters = [&](int step) {  // whole chunks of 16 bytes
    constexpr int kChunks = kDepth / 8;
    constexpr int kApart = kConvThreads / kChunks;
    const T* filters = static_cast<const T*>(p.filters) + block.filters_at;
    const int thread = NotInAdvance(ThreadId());
    const int row = thread / kChunks;
    const int k = step * kDepth + thread % kChunks * 8;
    T* to =
        &a[step % 2 * TileA::kElements] + TileA::At(row, thread % kChunks * 8);
    const T* from = filters + int64_t{row} * row_stride + k;
    STOWAGE_UNROLL
    for (int i = 0; i < kRows / kApart; ++i) {
      const bool valid = k < block.depth && row + i * kApart < block.rows_left;
      CopyAsyncZero16(to + i * kApart * kDepth, valid ? from : filters, valid);
      from += int64_t{kApart} * row_stride;
    }
    CopyAsyncCommit();
  };
  const auto load_filters = [&](int step) {
    const int apart = NotInAdvance(row_stride) * GatherA::kApart;
    const int first_row = GatherA::FirstRow();
    const T* row = static_cast<const T*>(p.filters) + block.filters_at +
                   int64_t{first_row} * row_stride;
    const int first_depth = GatherA::FirstDepth();
    int at[GatherA::kPer];
    STOWAGE_UNROLL
    for (int e = 0; e < GatherA::kPer; ++e) {
      at[e] = filters_at[step % kConvTables * kDepth + first_depth + e];
    }
    const int rows = block.rows_left - first_row;
    gather_a.Load([&](int i, int e) {
      return at[e] >= 0 && i * GatherA::kApart < rows ? row[i * apart + at[e]]
                                                      : T{};
    });
  };
  const bool copies = TileA::kTensor && !kTransposed && p.packed;

  Sums sums;
  sums.Clear();
  write_table(Warp());
  SyncThreads();
  // Half of a step's multiplications hide the loads of one operand.
  for (int step = -1; step < steps; ++step) {
    const int next = step + 1;
    const T* a_now = &a[(step & 1) * TileA::kElements];
    const T* b_now = &b[(step & 1) * TileB::kElements];
    if (next < steps) {
      if (copies) copy_filters(next);
      load_source(next);
    }
    if (step >= 0) sums.template AddHalf<0>(a_now, b_now);
    if (next < steps) {
      gather_b.Store(&b[(next & 1) * TileB::kElements]);
      if (!copies) load_filters(next);
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

  // The places of columns in row 0 of the block; -1: none.
  if (ThreadId() < kColumns) {
    const int64_t to_column = block.first_column + ThreadId();
    int64_t at = -1;
    if (to_column < block.columns) {
      const int64_t image = to_column / block.elements;
      const int element = static_cast<int>(to_column % block.elements);
      at = ((image * s.groups + block.group) * part.rows + block.first_row) *
               part.to_size +
           part.ToPlace(s, element);
    }
    columns_at[ThreadId()] = at;
  }
  SyncThreads();
  T* to = static_cast<T*>(p.to);
  STOWAGE_UNROLL
  for (int pair = 0; pair < Sums::kPairs; ++pair) {
    const Pack<int64_t> at = LoadPack(&columns_at[Sums::Column(pair)]);
    STOWAGE_UNROLL
    for (int i = 0; i < Sums::kOwnRows; ++i) {
      const int row = Sums::Row(i);
      if (row >= block.rows_left) continue;
      const int64_t row_at = int64_t{row} * part.to_size;
      const T low = FromFloat<T>(sums.Value(i, pair, 0));
      const T high = FromFloat<T>(sums.Value(i, pair, 1));
      if (p.paired) {
        if (at.value[0] >= 0) {
          *reinterpret_cast<Two<T>*>(to + at.value[0] + row_at) = {{low, high}};
        }
        continue;
      }
      if (at.value[0] >= 0) to[at.value[0] + row_at] = low;
      if (at.value[1] >= 0) to[at.value[1] + row_at] = high;
    }
  }
}

}  // namespace

template <bool kTransposed>
void EnqueueConvProduct(Queue& queue, const char* name, DType dtype,
                        ConvParams params, ConvPhases phases) {
  const ConvShapes& s = params.shapes;
  const int64_t rows = kTransposed ? s.channels : s.filters;
  const int64_t columns = s.images * phases.elements;
  const int64_t count = s.groups * phases.count;
  const ConvTileSize tile = ChooseConvTile(rows, columns, count);
  params.row_blocks = CeilDiv(rows, tile.rows);
  params.column_blocks = CeilDiv(columns, tile.columns);
  params.packed = !kTransposed && s.channels * s.kernel_size % 8 == 0 &&
                  IsPackAligned(params.filters);
  params.paired =
      !kTransposed && s.out_size % 2 == 0 && IsPackAligned(params.to);
  const Grid grid = {.x = static_cast<uint32_t>(params.row_blocks *
                                                params.column_blocks * count)};
  OnFloat(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto launch = [&](auto kernel) {
      LaunchKernel(queue, name, kernel, params, grid, kConvThreads);
    };
    if (tile.rows == 128) return launch(ConvProduct<T, kTransposed, 128, 128>);
    if (tile.columns == 128) {
      return launch(ConvProduct<T, kTransposed, 64, 128>);
    }
    launch(ConvProduct<T, kTransposed, 64, 64>);
  });
}

template void EnqueueConvProduct<false>(Queue&, const char*, DType, ConvParams,
                                        ConvPhases);
template void EnqueueConvProduct<true>(Queue&, const char*, DType, ConvParams,
                                       ConvPhases);

// --- conv_weight_grad --------------------------------------------------------

namespace {

// The work of a block, and the elements of dy that it sums over.
struct WeightBlockWork {
  int first_row, first_column, rows_left, columns, group;
  int64_t piece, begin, end;  // elements, of all images

  WeightBlockWork() = default;
  // Blocks are numbered by row, column, group, piece.
  STOWAGE_DEVICE WeightBlockWork(const ConvWeightGradParams& p, int rows,
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
  // By depth: the place of the element in row 0 of dy, or -1; the place where it meets x.
  STOWAGE_SHARED(int64_t, dy_at, kConvTables * kDepth);
  STOWAGE_SHARED(int64_t, x_at, kConvTables * kDepth);
  STOWAGE_SHARED(uint32_t, outside, kConvTables * kDepth);
  STOWAGE_SHARED(WeightBlockWork, blocks, 1);

  const ConvShapes& s = p.shapes;
  if (ThreadId() == 0) blocks[0] = WeightBlockWork(p, kRows, kColumns);
  SyncThreads();
  const WeightBlockWork& block = blocks[0];
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
  // Half of a step's multiplications hide the loads of one operand.
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
