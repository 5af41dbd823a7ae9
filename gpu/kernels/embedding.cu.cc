// gather and scatter_add on rows of a contiguous table (V, C...).
//
// scatter_add sorts the positions of the updates by their row, stably, by a radix sort with 8
// bits a pass. kTile neighbours in that order are a tile: a warp sums the updates of one row,
// in order of positions, and adds the sum to the table. If the updates of a row reach beyond
// the tile, the sum goes to the workspace, and a second kernel adds such partial sums in
// order. So no two threads write one element, and a row takes longer than others only by the
// number of its tiles.

#include <algorithm>
#include <bit>
#include <string>
#include <type_traits>
#include <utility>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/rows.h"
#include "gpu/kernels/walk.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

// --- gather ------------------------------------------------------------------

constexpr int kGatherThreads = 256;

struct GatherParams {
  const void* table;
  void* y;
  Indices indices;
  int64_t count;
  int64_t table_rows;
  int64_t columns;  // units of a row
  int lanes;        // threads of a row, a power of two
  FaultSlot fault;
};

// Unit is Pack<uint8_t> or an unsigned integer. A row whose index is out of
// range becomes zeros.
template <typename Unit>
STOWAGE_KERNEL(kGatherThreads)
GatherRows(STOWAGE_PARAMS(GatherParams) p) {
  const int of_block = kGatherThreads / p.lanes;
  const int64_t row = int64_t{BlockId()} * of_block + ThreadId() / p.lanes;
  const int lane = ThreadId() % p.lanes;
  if (row >= p.count) return;
  const int64_t index = p.indices.At(row);
  const bool good = index >= 0 && index < p.table_rows;
  if (!good && lane == 0) ReportFault(p.fault);
  const Unit* from =
      static_cast<const Unit*>(p.table) + (good ? index : 0) * p.columns;
  Unit* to = static_cast<Unit*>(p.y) + row * p.columns;
  for (int64_t i = lane; i < p.columns; i += p.lanes) {
    if constexpr (std::is_integral_v<Unit>) {
      to[i] = good ? from[i] : Unit{0};
    } else {
      const auto* bytes = reinterpret_cast<const uint8_t*>(from + i);
      StorePack(reinterpret_cast<uint8_t*>(to + i),
                good ? LoadPack(bytes) : Unit{});
    }
  }
}

template <typename Unit>
void LaunchGather(GatherParams params, Bytes row_bytes, Queue& queue) {
  params.columns = row_bytes / static_cast<Bytes>(sizeof(Unit));
  params.lanes = static_cast<int>(std::bit_ceil(
      static_cast<uint64_t>(std::min<int64_t>(params.columns, kWarpSize))));
  LaunchKernel(queue, "gather", GatherRows<Unit>, params,
               {.x = BlocksFor(params.count, kGatherThreads / params.lanes)},
               kGatherThreads);
}

void EnqueueGather(const Launch& launch, Queue& queue) {
  const TensorView& table = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const int64_t rows = table.shape()[0];
  const GatherParams params = {.table = table.data,
                               .y = y.data,
                               .indices = Indices(launch.inputs[1]),
                               .count = launch.inputs[1].size(),
                               .table_rows = rows,
                               .columns = 0,
                               .lanes = 1,
                               .fault = queue.fault()};
  const Bytes row_bytes = table.type.bytes() / rows;
  if (PacksAreWhole<uint8_t>(row_bytes, table.data, y.data)) {
    return LaunchGather<Pack<uint8_t>>(params, row_bytes, queue);
  }
  OnWidth(table.dtype(), [&](auto zero) {
    LaunchGather<decltype(zero)>(params, row_bytes, queue);
  });
}

// --- scatter_add: sorting ----------------------------------------------------

constexpr int kSortThreads = 256;
constexpr int kSortWarps = kSortThreads / kWarpSize;
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
static_assert(kDigits == kSortThreads, "a thread per digit");
constexpr int kKeysPerThread = 8;
constexpr int64_t kSortTile = kSortThreads * kKeysPerThread;

// The rows that updates go to, with their positions.
struct Keys {
  uint32_t* row;  // table_rows where the index is out of range
  uint32_t* position;
};

struct KeyParams {
  Indices indices;
  Keys to;
  int64_t count;
  int64_t table_rows;
  FaultSlot fault;
};

STOWAGE_KERNEL(kSortThreads) MakeKeys(STOWAGE_PARAMS(KeyParams) p) {
  const int64_t i = int64_t{BlockId()} * kSortThreads + ThreadId();
  if (i >= p.count) return;
  const int64_t index = p.indices.At(i);
  const bool good = index >= 0 && index < p.table_rows;
  if (!good) ReportFault(p.fault);
  p.to.row[i] = static_cast<uint32_t>(good ? index : p.table_rows);
  p.to.position[i] = static_cast<uint32_t>(i);
}

struct SortParams {
  Keys from, to;
  uint32_t* counts;  // (digits, blocks): how many; then where the first goes
  int64_t count;
  int64_t blocks;
  int shift;  // of the digit
};

STOWAGE_DEVICE int DigitOf(uint32_t row, int shift) {
  return static_cast<int>(row >> shift) & (kDigits - 1);
}

STOWAGE_KERNEL(kSortThreads) CountDigits(STOWAGE_PARAMS(SortParams) p) {
  STOWAGE_SHARED(uint32_t, counts, kDigits);
  counts[ThreadId()] = 0;
  SyncThreads();
  const int64_t first = BlockId() * kSortTile;
  for (int k = 0; k < kKeysPerThread; ++k) {
    const int64_t i = first + k * kSortThreads + ThreadId();
    if (i < p.count) {
      AtomicAdd(&counts[DigitOf(p.from.row[i], p.shift)], uint32_t{1});
    }
  }
  SyncThreads();
  p.counts[ThreadId() * p.blocks + BlockId()] = counts[ThreadId()];
}

constexpr int kScanThreads = 1024;
constexpr int kScanWarps = kScanThreads / kWarpSize;

// The sum over the lanes before this one.
STOWAGE_DEVICE uint32_t SumBefore(uint32_t v) {
  uint32_t sum = v;
  for (int delta = 1; delta < kWarpSize; delta *= 2) {
    const uint32_t other =
        Shuffle(sum, Lane() >= delta ? Lane() - delta : Lane());
    if (Lane() >= delta) sum += other;
  }
  return sum - v;
}

// Replaces each count by the sum of those before it. One block.
STOWAGE_KERNEL(kScanThreads) ScanCounts(STOWAGE_PARAMS(SortParams) p) {
  STOWAGE_SHARED(uint32_t, of_warp, kScanWarps);
  const int64_t n = kDigits * p.blocks;
  const int64_t share = (n + kScanThreads - 1) / kScanThreads;
  const int64_t begin = ThreadId() * share;
  const int64_t end = begin + share < n ? begin + share : n;
  uint32_t sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += p.counts[i];
  uint32_t before = SumBefore(sum);
  if (Lane() == kWarpSize - 1) of_warp[Warp()] = before + sum;
  SyncThreads();
  const uint32_t warps_before = SumBefore(of_warp[Lane()]);
  before += Shuffle(warps_before, Warp());
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t count = p.counts[i];
    p.counts[i] = before;
    before += count;
  }
}

// Moves keys to their places by one digit. Each warp ranks its own stretch of
// the tile, 32 neighbours at a time.
STOWAGE_KERNEL(kSortThreads) MoveKeys(STOWAGE_PARAMS(SortParams) p) {
  STOWAGE_SHARED(uint32_t, places, kSortWarps * kDigits);
  for (int digit = Lane(); digit < kDigits; digit += kWarpSize) {
    places[Warp() * kDigits + digit] = 0;
  }
  SyncWarp();
  const int64_t first =
      BlockId() * kSortTile + Warp() * (kKeysPerThread * kWarpSize) + Lane();
  uint32_t rows[kKeysPerThread];
  uint32_t ranks[kKeysPerThread];  // among the warp's keys of the same digit
  for (int k = 0; k < kKeysPerThread; ++k) {
    const int64_t i = first + k * kWarpSize;
    const bool valid = i < p.count;
    rows[k] = valid ? p.from.row[i] : 0;
    const int digit = DigitOf(rows[k], p.shift);
    uint32_t same = Ballot(valid);  // lanes with this lane's digit
    for (int bit = 0; bit < kDigitBits; ++bit) {
      const bool set = (digit >> bit & 1) != 0;
      const uint32_t with = Ballot(set);
      same &= set ? with : ~with;
    }
    uint32_t* place = &places[Warp() * kDigits + digit];
    const uint32_t lower = same & ((uint32_t{1} << Lane()) - 1);
    const uint32_t before = *place;
    ranks[k] = before + static_cast<uint32_t>(std::popcount(lower));
    SyncWarp();
    if (valid && lower == 0) {
      *place = before + static_cast<uint32_t>(std::popcount(same));
    }
    SyncWarp();
  }
  SyncThreads();
  uint32_t next = p.counts[ThreadId() * p.blocks + BlockId()];
  for (int warp = 0; warp < kSortWarps; ++warp) {
    uint32_t* place = &places[warp * kDigits + ThreadId()];
    const uint32_t count = *place;
    *place = next;
    next += count;
  }
  SyncThreads();
  for (int k = 0; k < kKeysPerThread; ++k) {
    const int64_t i = first + k * kWarpSize;
    if (i >= p.count) continue;
    const uint32_t to =
        places[Warp() * kDigits + DigitOf(rows[k], p.shift)] + ranks[k];
    p.to.row[to] = rows[k];
    p.to.position[to] = p.from.position[i];
  }
}

// --- scatter_add: sums -------------------------------------------------------

constexpr int kAddThreads = 128;
constexpr int kAddWarps = kAddThreads / kWarpSize;
constexpr int kTile = 32;   // updates of a warp
constexpr int kAtOnce = 8;  // tiles whose sums are read at once

struct AddParams {
  void* y;
  const void* updates;
  Keys keys;      // sorted
  void* partial;  // (tiles, 2, columns): of the run that the tile continues, of
                  // the one that it starts and leaves unfinished
  int64_t count;
  int64_t tiles;
  int64_t table_rows;
  int64_t columns;
  Divisor strips;  // of columns, one a warp
};

// kWidth neighbouring columns of a row: kPackSize<T>, aligned, or 1.
template <typename T, int kWidth>
struct Columns {
  Total<T> value[kWidth];

  STOWAGE_DEVICE void Clear() {
    for (int j = 0; j < kWidth; ++j) value[j] = 0;
  }
  STOWAGE_DEVICE void Add(const T* x) {
    if constexpr (kWidth == 1) {
      value[0] += Widen(*x);
    } else {
      const Pack<T> pack = LoadPack(x);
      for (int j = 0; j < kWidth; ++j) value[j] += Widen(pack.value[j]);
    }
  }
  STOWAGE_DEVICE void AddPartial(const Total<T>* x) {
    if constexpr (kWidth == 1) {
      value[0] += *x;
    } else {
      for (int i = 0; i < kWidth; i += kPackSize<float>) {
        const Pack<float> pack = LoadPack(x + i);
        for (int j = 0; j < kPackSize<float>; ++j) {
          value[i + j] += pack.value[j];
        }
      }
    }
  }
  STOWAGE_DEVICE void StorePartial(Total<T>* to) const {
    if constexpr (kWidth == 1) {
      *to = value[0];
    } else {
      for (int i = 0; i < kWidth; i += kPackSize<float>) {
        Pack<float> pack;
        for (int j = 0; j < kPackSize<float>; ++j) {
          pack.value[j] = value[i + j];
        }
        StorePack(to + i, pack);
      }
    }
  }
  STOWAGE_DEVICE void AddTo(T* y) const {
    if constexpr (kWidth == 1) {
      *y = AddTotal(*y, value[0]);
    } else {
      Pack<T> pack = LoadPack(y);
      for (int j = 0; j < kWidth; ++j) {
        pack.value[j] = AddTotal(pack.value[j], value[j]);
      }
      StorePack(y, pack);
    }
  }
};

// The work of a warp: its tile, and the columns of its lanes. The warps of a block have one
// strip of as many tiles.
template <int kWidth>
struct TilePlace {
  explicit STOWAGE_DEVICE TilePlace(const AddParams& p) {
    const auto block = static_cast<uint32_t>(BlockId());
    const uint32_t group = p.strips.Divide(block);
    const uint32_t strip = block - group * p.strips.d;
    tile = int64_t{group} * kAddWarps + Warp();
    column = (int64_t{strip} * kWarpSize + Lane()) * kWidth;
    valid = tile < p.tiles && column < p.columns;
    first = tile * kTile;
    is_last = tile + 1 == p.tiles;
    size = is_last ? static_cast<int>(p.count - first) : kTile;
  }
  int64_t tile, column;
  int64_t first;  // in the sorted order
  int size;
  bool is_last;
  bool valid;
};

template <typename T, int kWidth>
STOWAGE_KERNEL(kAddThreads)
AddTiles(STOWAGE_PARAMS(AddParams) p) {
  const TilePlace<kWidth> at(p);
  if (!at.valid) return;
  const uint32_t* rows = p.keys.row + at.first;
  const uint32_t* positions = p.keys.position + at.first;
  const T* updates = static_cast<const T*>(p.updates) + at.column;
  Total<T>* partial =
      static_cast<Total<T>*>(p.partial) + at.tile * 2 * p.columns + at.column;
  uint32_t row = rows[0];
  bool continues =  // the run that is added up began in another tile
      at.tile > 0 && rows[-1] == row;
  Columns<T, kWidth> sum;
  sum.Clear();
  for (int i = 0; i < at.size; ++i) {
    sum.Add(updates + positions[i] * p.columns);
    const bool last = i + 1 == at.size;
    const bool same = !(last && at.is_last) && rows[i + 1] == row;
    if (same && !last) continue;
    if (continues) {
      sum.StorePartial(partial);
    } else if (same) {
      sum.StorePartial(partial + p.columns);
    } else if (row < p.table_rows) {
      sum.AddTo(static_cast<T*>(p.y) + row * p.columns + at.column);
    }
    if (last) return;
    sum.Clear();
    continues = false;
    row = rows[i + 1];
  }
}

// The tile in which a run starts adds the partial sums of the tiles that the run reaches.
template <typename T, int kWidth>
STOWAGE_KERNEL(kAddThreads)
AddPieces(STOWAGE_PARAMS(AddParams) p) {
  const TilePlace<kWidth> at(p);
  if (!at.valid || at.is_last) return;
  const uint32_t* rows = p.keys.row + at.first;
  const uint32_t row = rows[kTile - 1];
  if (rows[kTile] != row || row >= p.table_rows ||
      (at.tile > 0 && rows[-1] == row)) {
    return;
  }
  // The sums of the tiles from the next on, for the run that they continue.
  const int64_t step = 2 * p.columns;
  const Total<T>* partial =
      static_cast<const Total<T>*>(p.partial) + at.column + at.tile * step;
  Columns<T, kWidth> sum;
  sum.Clear();
  sum.AddPartial(partial + p.columns);
  int64_t left = p.tiles - at.tile - 1;
  // Rows are in order: all of these start with the row with which the last one starts.
  for (; left >= kAtOnce && rows[kAtOnce * kTile] == row; left -= kAtOnce) {
    for (int k = 1; k <= kAtOnce; ++k) sum.AddPartial(partial + k * step);
    partial += kAtOnce * step;
    rows += kAtOnce * kTile;
  }
  for (; left > 0 && rows[kTile] == row; --left) {
    partial += step;
    rows += kTile;
    sum.AddPartial(partial);
  }
  sum.AddTo(static_cast<T*>(p.y) + row * p.columns + at.column);
}

// --- scatter_add: launches ---------------------------------------------------

// Sizes and the layout of the workspace.
struct ScatterPlan {
  ScatterPlan(const TensorType& base, int64_t updates)
      : count(updates),
        table_rows(base.shape[0]),
        columns(base.shape.num_elements() / table_rows),
        blocks(CeilDiv(count, kSortTile)),
        tiles(CeilDiv(count, kTile)),
        passes(static_cast<int>(CeilDiv(
            std::bit_width(static_cast<uint64_t>(table_rows)), kDigitBits))),
        keys_bytes(AlignUp(count * 4, kSlotAlignment)),
        counts_bytes(AlignUp(kDigits * blocks * 4, kSlotAlignment)) {
    const Bytes total = IsComputedFloat(base.dtype) ? 4 : 8;
    partial_bytes = tiles * 2 * columns * total;
  }
  Bytes bytes() const { return 4 * keys_bytes + counts_bytes + partial_bytes; }

  Keys KeysAt(std::byte* workspace, int which) const {
    std::byte* at = workspace + which * 2 * keys_bytes;
    return {reinterpret_cast<uint32_t*>(at),
            reinterpret_cast<uint32_t*>(at + keys_bytes)};
  }
  uint32_t* CountsAt(std::byte* workspace) const {
    return reinterpret_cast<uint32_t*>(workspace + 4 * keys_bytes);
  }
  std::byte* PartialAt(std::byte* workspace) const {
    return workspace + 4 * keys_bytes + counts_bytes;
  }

  int64_t count;
  int64_t table_rows;
  int64_t columns;
  int64_t blocks;  // of a sorting grid
  int64_t tiles;
  int passes;  // one a digit; the value table_rows counts
  Bytes keys_bytes, counts_bytes, partial_bytes;
};

template <typename T, int kWidth>
void LaunchAdds(AddParams params, Queue& queue) {
  const int64_t strips = CeilDiv(params.columns, kWarpSize * kWidth);
  params.strips = Divisor::Of(static_cast<uint32_t>(strips));
  const Grid grid = {
      .x = BlocksFor(CeilDiv(params.tiles, kAddWarps) * strips, 1)};
  LaunchKernel(queue, "scatter_add", AddTiles<T, kWidth>, params, grid,
               kAddThreads);
  if (params.tiles == 1) return;
  LaunchKernel(queue, "scatter_add of pieces", AddPieces<T, kWidth>, params,
               grid, kAddThreads);
}

void EnqueueScatterAdd(const Launch& launch, Queue& queue) {
  const TensorView& base = launch.inputs[0];
  const TensorView& indices = launch.inputs[1];
  const TensorView& updates = launch.inputs[2];
  const TensorView& y = launch.outputs[0];
  if (y.data != base.data) queue.Copy(y.data, base.data, y.type.bytes());

  const ScatterPlan plan(y.type, indices.size());
  std::byte* workspace = launch.workspace.data();
  SortParams sort = {.from = plan.KeysAt(workspace, 0),
                     .to = plan.KeysAt(workspace, 1),
                     .counts = plan.CountsAt(workspace),
                     .count = plan.count,
                     .blocks = plan.blocks,
                     .shift = 0};
  LaunchKernel(
      queue, "keys", MakeKeys,
      {Indices(indices), sort.from, plan.count, plan.table_rows, queue.fault()},
      {.x = BlocksFor(plan.count, kSortThreads)}, kSortThreads);
  const Grid grid = {.x = static_cast<uint32_t>(plan.blocks)};
  for (int pass = 0; pass < plan.passes; ++pass) {
    sort.shift = pass * kDigitBits;
    LaunchKernel(queue, "count digits", CountDigits, sort, grid, kSortThreads);
    LaunchKernel(queue, "scan counts", ScanCounts, sort, {}, kScanThreads);
    LaunchKernel(queue, "move keys", MoveKeys, sort, grid, kSortThreads);
    std::swap(sort.from, sort.to);
  }

  const AddParams params = {.y = y.data,
                            .updates = updates.data,
                            .keys = sort.from,
                            .partial = plan.PartialAt(workspace),
                            .count = plan.count,
                            .tiles = plan.tiles,
                            .table_rows = plan.table_rows,
                            .columns = plan.columns,
                            .strips = {}};
  OnNumber(y.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_integral_v<T>) {
      if (PacksAreWhole<T>(plan.columns, y.data, updates.data)) {
        return LaunchAdds<T, kPackSize<T>>(params, queue);
      }
    }
    LaunchAdds<T, 1>(params, queue);
  });
}

Bytes ScatterAddWorkspace(const OpArgs& args, std::span<const TensorType>) {
  return ScatterPlan(args.type(0), args.shape(1).num_elements()).bytes();
}

// Rows and positions are sorted as 32 bits.
std::string ScatterAddExcess(const OpArgs& args) {
  constexpr int64_t kMax = (int64_t{1} << 31) - 1;
  const int64_t rows = args.shape(0)[0];
  const int64_t updates = args.shape(1).num_elements();
  if (rows > kMax) {
    return StrCat(Quoted(args.names[0]), " has ", rows,
                  " rows; expected at most ", kMax);
  }
  if (updates > kMax) {
    return StrCat(Quoted(args.names[1]), " has ", updates,
                  " elements; expected at most ", kMax);
  }
  return "";
}

}  // namespace

namespace kernels {

constinit const GpuKernel Gather = {.enqueue = EnqueueGather,
                                    .supports = SupportsAll};
constinit const GpuKernel ScatterAdd = {.enqueue = EnqueueScatterAdd,
                                        .workspace = ScatterAddWorkspace,
                                        .supports = SupportsNumbers,
                                        .excess = ScatterAddExcess};

}  // namespace kernels
}  // namespace stowage::gpu
