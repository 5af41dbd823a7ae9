// conv and conv_transpose as products of large tiles: 16-bit types by tensor cores, f32
// by FMAs.
//
// A depth of the product is a channel of the source and a tap. What it says of source
// and filters is worked out once for a block, in a table for each step, by a warp each for
// as many steps; the columns that threads gather stay the same. Filters lie by channels
// and then by taps, so steps do, too: those of a conv come by 16 bytes where they can.

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

template <typename T>
struct alignas(2 * sizeof(T)) Two {
  T value[2];
};

// What a block makes. Threads look it up, for it is more than registers hold beside
// the sums.
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
  // Half of a product hides the loads of one operand.
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

  // Where columns go, from row 0 of the block; below 0: nowhere.
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

}  // namespace stowage::gpu
