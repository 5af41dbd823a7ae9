// Attention by products of warpgroups, f16 and bf16: what attention_tensor.cu.cc
// computes, with the same two passes of the gradient, for devices that have such
// products (gpu/warpgroup.h).
//
// A block is two warpgroups with 64 rows each, which share the tiles of the other side.
// A warpgroup issues its next products before it computes with what the last ones
// found: so the tensor cores work while exponentials are taken, and one barrier a tile
// says both that the next tiles have arrived and that older ones may be written over.

#include <cmath>
#include <cstdint>

#include "gpu/kernels/attention_params.h"
#include "gpu/kernels/attention_softmax.h"
#include "gpu/kernels/attention_tiles.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "gpu/warpgroup.h"

namespace stowage::gpu {
namespace {

constexpr int kWarpgroups = 2;
constexpr int kThreads = kWarpgroups * kWarpgroupSize;
constexpr int kOwnRows = 64;  // queries or keys of a warpgroup
constexpr int kBlockRows = kWarpgroups * kOwnRows;

// --- Tiles of panels ---

// Rows of kDepth elements: panels of so many columns, one behind the other.
template <int kDepth>
struct Panels {
  static constexpr int kWidth = kDepth < 64 ? kDepth : 64;
  static constexpr int kCount = kDepth / kWidth;
  static constexpr int kRowBytes = 2 * kWidth;
};

// Starts to load a tile; as LoadTile.
template <int kRows, int kDepth, typename T>
STOWAGE_DEVICE void LoadPanels(T* tile, const T* head, int64_t row_stride,
                               int first, int length, int depth, bool packed) {
  constexpr int kWidth = Panels<kDepth>::kWidth;
  STOWAGE_UNROLL
  for (int i = 0; i < Panels<kDepth>::kCount; ++i) {
    LoadTile<kRows, kWidth, kThreads>(tile + i * kRows * kWidth,
                                      head + i * kWidth, row_stride, first,
                                      length, depth - i * kWidth, packed);
  }
}

// Writes this warp's strip of sums to global memory; as StoreStrip.
template <int kRows, int kDepth, typename T>
STOWAGE_DEVICE void StorePanels(const float (&sum)[kDepth / 8][4],
                                const float (&factor)[2], T* tile, T* head,
                                int64_t row_stride, int first, int length,
                                int depth) {
  constexpr int kWidth = Panels<kDepth>::kWidth;
  const int strip_row = Warp() * 16;
  STOWAGE_UNROLL
  for (int i = 0; i < Panels<kDepth>::kCount; ++i) {
    StoreStrip<kWidth>(sum + i * kWidth / 8, factor, tile + i * kRows * kWidth,
                       strip_row, head + i * kWidth, row_stride,
                       first + strip_row, length, depth - i * kWidth);
  }
}

// The rows of this warp in a tile of the block's own, as left factors.
template <int kDepth, typename T>
STOWAGE_DEVICE void LoadOwnRows(uint32_t (&a)[kDepth / 16][4], const T* tile) {
  constexpr int kWidth = Panels<kDepth>::kWidth;
  STOWAGE_UNROLL
  for (int k = 0; k < kDepth / 16; ++k) {
    const int panel = k * 16 / kWidth;
    const int chunk = k * 2 % (kWidth / 8) + Lane() / 16;
    LoadMatrix4(a[k], tile + panel * kBlockRows * kWidth +
                          Swizzled<kWidth>(Warp() * 16 + Lane() % 16, chunk));
  }
}

// Where columns 16 k and on of a tile of kRows rows begin, in bytes.
template <int kRows, int kDepth>
STOWAGE_DEVICE constexpr int ColumnsAt(int k) {
  constexpr int kWidth = Panels<kDepth>::kWidth;
  return k * 16 / kWidth * kRows * 2 * kWidth + k * 32 % (2 * kWidth);
}

template <int kRows, int kDepth>
STOWAGE_DEVICE TileDescriptor Describe(uint32_t at) {
  return DescribeTile<Panels<kDepth>::kRowBytes>(
      at, kRows * Panels<kDepth>::kRowBytes);
}

// Issues s = a b^T, of own rows a and a tile b of 8 n rows.
template <typename T, int kDepth, int n>
STOWAGE_DEVICE void Multiply(float (&s)[n][4],
                             const uint32_t (&a)[kDepth / 16][4],
                             TileDescriptor b) {
  STOWAGE_UNROLL
  for (int k = 0; k < kDepth / 16; ++k) {
    WarpgroupMultiply<T, kRowsOfB>(s, a[k], b.Plus(ColumnsAt<8 * n, kDepth>(k)),
                                   k > 0);
  }
}
template <typename T, int kDepth, int n>
STOWAGE_DEVICE void Multiply(float (&s)[n][4], TileDescriptor a,
                             TileDescriptor b) {
  STOWAGE_UNROLL
  for (int k = 0; k < kDepth / 16; ++k) {
    WarpgroupMultiply<T, kRowsOfB>(s, a.Plus(ColumnsAt<kBlockRows, kDepth>(k)),
                                   b.Plus(ColumnsAt<8 * n, kDepth>(k)), k > 0);
  }
}

// Issues sum += weights b, of a tile b of 16 n rows.
template <typename T, int kDepth, int n>
STOWAGE_DEVICE void AddProduct(float (&sum)[kDepth / 8][4],
                               const uint32_t (&weights)[n][4],
                               TileDescriptor b) {
  STOWAGE_UNROLL
  for (int k = 0; k < n; ++k) {
    WarpgroupMultiply<T, kColumnsOfB>(
        sum, weights[k], b.Plus(k * 16 * Panels<kDepth>::kRowBytes), true);
  }
}

// Sums, rounded, as left factors of the next product.
template <typename T, int n>
STOWAGE_DEVICE void PackSums(uint32_t (&a)[n][4],
                             const float (&sums)[2 * n][4]) {
  STOWAGE_UNROLL
  for (int k = 0; k < n; ++k) {
    STOWAGE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float* two = &sums[2 * k + i / 2][i % 2 * 2];
      a[k][i] = PackTwo<T>(two[0], two[1]);
    }
  }
}

// --- Forward ---

template <int kDepth>
struct ForwardTiles {
  static constexpr int kKeys = 64;
  static constexpr int kOwn = kBlockRows * kDepth;  // elements
  static constexpr int kStage = kKeys * kDepth;
  static constexpr int kBytes = 2 * (kOwn + 2 * 2 * kStage);
  static constexpr int kBlocks = kDepth == 128 ? 1 : 2;  // of a multiprocessor
};

template <typename T, int kDepth>
STOWAGE_KERNEL(kThreads, ForwardTiles<kDepth>::kBlocks)
AttentionWarpgroupForward(STOWAGE_PARAMS(AttentionParams) p) {
  using Tiles = ForwardTiles<kDepth>;
  constexpr int kKeys = Tiles::kKeys;
  T* shared = SwizzledShared<T>();
  constexpr int q_tile = 0;
  constexpr int k_tiles = Tiles::kOwn;  // two, and two of v
  constexpr int v_tiles = k_tiles + 2 * Tiles::kStage;

  const QueryTile its = QueryTileOf<kBlockRows>(p, BlockId());
  const int first_query = its.first_query;
  const AttentionRange read =
      KeysRead(p, KeysOf(p, its.batch), first_query, kBlockRows, kKeys);
  const int tiles = TilesOf(read.end - read.begin, kKeys);
  const int key_head = its.head / (p.heads / p.key_heads);
  const auto load = [&](int at, const AttentionOperand& x, int tile) {
    LoadPanels<kKeys, kDepth>(
        shared + at + tile % 2 * Tiles::kStage,
        HeadOf<T>(x, NotInAdvance(its.batch), NotInAdvance(key_head)), x.row,
        read.begin + tile * kKeys, read.end, p.depth, p.packed);
  };
  LoadPanels<kBlockRows, kDepth>(shared + q_tile,
                                 HeadOf<T>(p.q, its.batch, its.head), p.q.row,
                                 first_query, p.queries, p.depth, p.packed);
  if (tiles > 0) load(k_tiles, p.k, 0);
  CopyAsyncCommit();

  float o[kDepth / 8][4];
  SetZero(o);
  OnlineRow rows[2];
  const int row = Warp() * 16 + Lane() / 4;  // of the tile, of half 0
  CopyAsyncWait<0>();
  ProxyFence();
  SyncThreads();
  if (tiles > 0) {
    const TileDescriptor k_at =
        Describe<kKeys, kDepth>(SharedByte(shared + k_tiles));
    const TileDescriptor v_at =
        Describe<kKeys, kDepth>(SharedByte(shared + v_tiles));
    uint32_t q[kDepth / 16][4];
    LoadOwnRows<kDepth>(q, shared + q_tile);
    float s[kKeys / 8][4];
    uint32_t weights[kKeys / 16][4];
    load(v_tiles, p.v, 0);
    if (tiles > 1) load(k_tiles, p.k, 1);
    CopyAsyncCommit();
    WarpgroupFence(q, s);
    Multiply<T, kDepth>(s, q, k_at);
    WarpgroupCommit();
    WarpgroupWait<0>(s);
    MaskScores(s, p, read.end, first_query + row, read.begin + Lane() % 4 * 2);
    TakeScores<true>(s, 0, p.scale * kLog2E, rows[0]);
    TakeScores<true>(s, 1, p.scale * kLog2E, rows[1]);
    PackSums<T>(weights, s);
    // Weights of tile - 1 are there; its k and the v before it have been read.
    for (int tile = 1;; ++tile) {
      CopyAsyncWait<0>();
      ProxyFence();
      SyncThreads();
      const TileDescriptor v = v_at.Plus((tile - 1) % 2 * 2 * Tiles::kStage);
      if (tile == tiles) {
        WarpgroupFence(o, weights);
        AddProduct<T, kDepth>(o, weights, v);
        WarpgroupCommit();
        break;
      }
      if (tile + 1 < tiles) load(k_tiles, p.k, tile + 1);
      load(v_tiles, p.v, tile);
      CopyAsyncCommit();
      WarpgroupFence(s, o, weights);
      Multiply<T, kDepth>(s, q, k_at.Plus(tile % 2 * 2 * Tiles::kStage));
      WarpgroupCommit();
      AddProduct<T, kDepth>(o, weights, v);
      WarpgroupCommit();
      WarpgroupWait<1>(s);
      const int first_key = read.begin + tile * kKeys;
      const int query = NotInAdvance(first_query);
      const float scale2 = p.scale * kLog2E;
      float correction[2];
      if (ReadAll(p, read.end, query + Warpgroup() * kOwnRows, kOwnRows,
                  first_key, kKeys)) {
        correction[0] = TakeScores<false>(s, 0, scale2, rows[0]);
        correction[1] = TakeScores<false>(s, 1, scale2, rows[1]);
      } else {
        MaskScores(s, p, read.end, query + row, first_key + Lane() % 4 * 2);
        correction[0] = TakeScores<true>(s, 0, scale2, rows[0]);
        correction[1] = TakeScores<true>(s, 1, scale2, rows[1]);
      }
      WarpgroupWait<0>(o, weights);
      PackSums<T>(weights, s);
      ScaleRows(o, 0, correction[0]);
      ScaleRows(o, 1, correction[1]);
    }
    WarpgroupWait<0>(o);
  }

  // Of q no other warp reads the rows that are written over now.
  const QueryTile done = QueryTileOf<kBlockRows>(p, NotInAdvance(BlockId()));
  float* log_sum_exp = p.log_sum_exp + StatisticsOf(p, done.batch, done.head);
  float factor[2];
  STOWAGE_UNROLL
  for (int half = 0; half < 2; ++half) {
    factor[half] = FinishRow(rows[half], p, log_sum_exp,
                             done.first_query + row + half * 8);
  }
  StorePanels<kBlockRows, kDepth>(
      o, factor, shared + q_tile,
      HeadOf<T>(p, 0, done.batch, done.head, p.queries), p.out_row[0],
      done.first_query, p.queries, p.depth);
}

// --- Gradient ---

// The block's own two tiles, and three stages of two: scores are made of one while the
// sums take in the one before it, and the next is being loaded. Behind them, of tiles of
// queries, their statistics.
constexpr int kStages = 3;
template <int kDepth, int kRows>
struct GradTiles {
  static constexpr int kTileRows = kRows;
  static constexpr int kOwn = kBlockRows * kDepth;
  static constexpr int kStage = kTileRows * kDepth;
  static constexpr int kElements = 2 * kOwn + kStages * 2 * kStage;
};
// As many rows as accumulators fit the 255 registers of a thread.
template <int kDepth>
using KeyGradTiles = GradTiles<kDepth, kDepth == 128 ? 32 : 64>;
template <int kDepth>
using QueryGradTiles = GradTiles<kDepth, 64>;

// A left factor of kOwnRows rows: where it lies, or what lies there.
template <int kDepth, bool kInRegisters>
struct OwnRows;
template <int kDepth>
struct OwnRows<kDepth, true> {
  uint32_t value[kDepth / 16][4];
  template <typename T>
  STOWAGE_DEVICE void Load(const T* tile) {
    LoadOwnRows<kDepth>(value, tile);
    WarpgroupFence(value);
  }
};
template <int kDepth>
struct OwnRows<kDepth, false> {
  TileDescriptor value;
  template <typename T>
  STOWAGE_DEVICE void Load(const T* tile) {
    value = Describe<kBlockRows, kDepth>(SharedByte(tile))
                .Plus(Warpgroup() * kOwnRows * Panels<kDepth>::kRowBytes);
  }
};

// dk and dv of one tile of keys, summed over the query heads that share them.
template <typename T, int kDepth>
STOWAGE_KERNEL(kThreads, 1)
AttentionWarpgroupGradKeys(STOWAGE_PARAMS(AttentionParams) p) {
  using Tiles = KeyGradTiles<kDepth>;
  constexpr int kTileRows = Tiles::kTileRows;
  T* shared = SwizzledShared<T>();
  constexpr int k_tile = 0;
  constexpr int v_tile = Tiles::kOwn;
  constexpr int q_tiles = 2 * Tiles::kOwn;  // three, and three of d_o
  constexpr int d_o_tiles = q_tiles + kStages * Tiles::kStage;
  auto* statistics =
      reinterpret_cast<QueryStatistics*>(shared + Tiles::kElements);

  // The tiles that most queries see come first.
  const int tiles = TilesOf(p.keys, kBlockRows);
  const int first_key = BlockId() % tiles * kBlockRows;
  const int key_head = BlockId() / tiles % p.key_heads;
  const int batch = BlockId() / tiles / p.key_heads;
  const int group = p.heads / p.key_heads;
  const int keys = KeysOf(p, batch);
  const AttentionRange readers =
      Readers(p, keys, first_key, kBlockRows, kTileRows);
  const int tiles_of_head = TilesOf(readers.end - readers.begin, kTileRows);
  const int steps = tiles_of_head > 0 ? tiles_of_head * group : 0;

  LoadPanels<kBlockRows, kDepth>(shared + k_tile,
                                 HeadOf<T>(p.k, batch, key_head), p.k.row,
                                 first_key, keys, p.depth, p.packed);
  LoadPanels<kBlockRows, kDepth>(shared + v_tile,
                                 HeadOf<T>(p.v, batch, key_head), p.v.row,
                                 first_key, keys, p.depth, p.packed);
  // The tile that is loaded next: of which head, from which query on, where to.
  int next_head = key_head * group;
  int next_query = readers.begin;
  int next_stage = 0;
  const auto load = [&] {
    QueryStatistics loaded{};
    if (ThreadId() < kTileRows) {
      loaded = LoadStatistics(p, batch, next_head, next_query + ThreadId());
    }
    LoadPanels<kTileRows, kDepth>(shared + q_tiles + next_stage * Tiles::kStage,
                                  HeadOf<T>(p.q, batch, next_head), p.q.row,
                                  next_query, p.queries, p.depth, p.packed);
    LoadPanels<kTileRows, kDepth>(
        shared + d_o_tiles + next_stage * Tiles::kStage,
        HeadOf<T>(p.d_o, batch, next_head), p.d_o.row, next_query, p.queries,
        p.depth, p.packed);
    next_stage = next_stage == kStages - 1 ? 0 : next_stage + 1;
    next_query += kTileRows;
    if (next_query >= readers.end) {
      next_query = readers.begin;
      ++next_head;
    }
    return loaded;
  };
  const auto keep = [&](int stage, const QueryStatistics& loaded) {
    if (ThreadId() < kTileRows) {
      statistics[stage * kTileRows + ThreadId()] = loaded;
    }
  };
  if (steps > 0) keep(0, load());
  CopyAsyncCommit();

  float dk[kDepth / 8][4], dv[kDepth / 8][4];
  SetZero(dk);
  SetZero(dv);
  CopyAsyncWait<0>();
  ProxyFence();
  SyncThreads();
  if (steps > 0) {
    const TileDescriptor q_at =
        Describe<kTileRows, kDepth>(SharedByte(shared + q_tiles));
    const TileDescriptor d_o_at =
        Describe<kTileRows, kDepth>(SharedByte(shared + d_o_tiles));
    const int own_row = Warpgroup() * kOwnRows;
    const int key = first_key + Warp() * 16 + Lane() / 4;
    const int column = Lane() % 4 * 2;
    OwnRows<kDepth, kDepth <= 64> k;
    OwnRows<kDepth, kDepth <= 64> v;
    k.Load(shared + k_tile);
    v.Load(shared + v_tile);
    float s[kTileRows / 8][4], ds[kTileRows / 8][4];
    uint32_t weights[kTileRows / 16][4], grads[kTileRows / 16][4];
    const auto to_probabilities = [&](int first_query, int stage) {
      const QueryStatistics* its = statistics + stage * kTileRows + column;
      const int query = first_query + column;
      if (ReadAll(p, keys, first_query, kTileRows, first_key + own_row,
                  kOwnRows)) {
        ToProbabilitiesOfKeys<false>(s, its, p, keys, key, query);
      } else {
        ToProbabilitiesOfKeys<true>(s, its, p, keys, key, query);
      }
    };
    if (steps > 1) keep(1, load());
    CopyAsyncCommit();
    WarpgroupFence(s, ds, dk, dv);
    Multiply<T, kDepth>(s, k.value, q_at);
    Multiply<T, kDepth>(ds, v.value, d_o_at);
    WarpgroupCommit();
    WarpgroupWait<0>(s, ds);
    int first_query = readers.begin;
    int stage = 0;
    to_probabilities(first_query, stage);
    ToScoreGradsOfKeys(ds, s, statistics + column);
    PackSums<T>(weights, s);
    PackSums<T>(grads, ds);
    // Weights and gradients of scores of a tile are there; the one before has been read.
    for (int step = 1;; ++step) {
      CopyAsyncWait<0>();
      ProxyFence();
      SyncThreads();
      const TileDescriptor q = q_at.Plus(stage * 2 * Tiles::kStage);
      const TileDescriptor d_o = d_o_at.Plus(stage * 2 * Tiles::kStage);
      if (step == steps) {
        WarpgroupFence(dk, dv, weights, grads);
        AddProduct<T, kDepth>(dv, weights, d_o);
        AddProduct<T, kDepth>(dk, grads, q);
        WarpgroupCommit();
        break;
      }
      stage = stage == kStages - 1 ? 0 : stage + 1;
      first_query += kTileRows;
      if (first_query >= readers.end) first_query = readers.begin;
      QueryStatistics loaded{};
      if (step + 1 < steps) loaded = load();
      CopyAsyncCommit();
      WarpgroupFence(s, ds, dk, dv, weights, grads);
      Multiply<T, kDepth>(s, k.value, q_at.Plus(stage * 2 * Tiles::kStage));
      WarpgroupCommit();
      Multiply<T, kDepth>(ds, v.value, d_o_at.Plus(stage * 2 * Tiles::kStage));
      WarpgroupCommit();
      AddProduct<T, kDepth>(dv, weights, d_o);
      AddProduct<T, kDepth>(dk, grads, q);
      WarpgroupCommit();
      WarpgroupWait<2>(s);
      to_probabilities(first_query, stage);
      WarpgroupWait<1>(ds);
      ToScoreGradsOfKeys(ds, s, statistics + stage * kTileRows + column);
      WarpgroupWait<0>(dk, dv, weights, grads);
      PackSums<T>(weights, s);
      PackSums<T>(grads, ds);
      if (step + 1 < steps) {
        keep(next_stage == 0 ? kStages - 1 : next_stage - 1, loaded);
      }
    }
    WarpgroupWait<0>(dk, dv);
  }
  // All have read k and v: a barrier has come since.
  StorePanels<kBlockRows, kDepth>(dk, {p.scale, p.scale}, shared + k_tile,
                                  HeadOf<T>(p, 1, batch, key_head, p.keys),
                                  p.out_row[1], first_key, p.keys, p.depth);
  StorePanels<kBlockRows, kDepth>(dv, {1, 1}, shared + v_tile,
                                  HeadOf<T>(p, 2, batch, key_head, p.keys),
                                  p.out_row[2], first_key, p.keys, p.depth);
}

// dq of one tile of queries.
template <typename T, int kDepth>
STOWAGE_KERNEL(kThreads, 1)
AttentionWarpgroupGradQueries(STOWAGE_PARAMS(AttentionParams) p) {
  using Tiles = QueryGradTiles<kDepth>;
  constexpr int kTileRows = Tiles::kTileRows;
  T* shared = SwizzledShared<T>();
  constexpr int q_tile = 0;
  constexpr int d_o_tile = Tiles::kOwn;
  constexpr int k_tiles = 2 * Tiles::kOwn;  // three, and three of v
  constexpr int v_tiles = k_tiles + kStages * Tiles::kStage;

  const QueryTile its = QueryTileOf<kBlockRows>(p, BlockId());
  const int first_query = its.first_query, head = its.head, batch = its.batch;
  const int key_head = head / (p.heads / p.key_heads);
  const AttentionRange read =
      KeysRead(p, KeysOf(p, batch), first_query, kBlockRows, kTileRows);
  const int tiles = TilesOf(read.end - read.begin, kTileRows);
  const auto load = [&](int tile, int stage, bool packed) {
    const int first = read.begin + tile * kTileRows;
    LoadPanels<kTileRows, kDepth>(shared + k_tiles + stage * Tiles::kStage,
                                  HeadOf<T>(p.k, batch, key_head), p.k.row,
                                  first, read.end, p.depth, packed);
    LoadPanels<kTileRows, kDepth>(shared + v_tiles + stage * Tiles::kStage,
                                  HeadOf<T>(p.v, batch, key_head), p.v.row,
                                  first, read.end, p.depth, packed);
  };
  LoadPanels<kBlockRows, kDepth>(shared + q_tile, HeadOf<T>(p.q, batch, head),
                                 p.q.row, first_query, p.queries, p.depth,
                                 p.packed);
  LoadPanels<kBlockRows, kDepth>(shared + d_o_tile,
                                 HeadOf<T>(p.d_o, batch, head), p.d_o.row,
                                 first_query, p.queries, p.depth, p.packed);
  if (tiles > 0) load(0, 0, p.packed);
  CopyAsyncCommit();

  float dq[kDepth / 8][4];
  SetZero(dq);
  CopyAsyncWait<0>();
  ProxyFence();
  SyncThreads();
  if (tiles > 0) {
    const TileDescriptor k_at =
        Describe<kTileRows, kDepth>(SharedByte(shared + k_tiles));
    const TileDescriptor v_at =
        Describe<kTileRows, kDepth>(SharedByte(shared + v_tiles));
    const int own_row = Warpgroup() * kOwnRows;
    const int query = first_query + Warp() * 16 + Lane() / 4;
    const QueryStatistics statistics[2] = {
        LoadStatistics(p, batch, head, query),
        LoadStatistics(p, batch, head, query + 8)};
    OwnRows<kDepth, kDepth <= 64> q, d_o;
    q.Load(shared + q_tile);
    d_o.Load(shared + d_o_tile);
    float s[kTileRows / 8][4], ds[kTileRows / 8][4];
    uint32_t grads[kTileRows / 16][4];
    const auto to_probabilities = [&](int tile) {
      const int first_key = read.begin + tile * kTileRows;
      const int key = first_key + Lane() % 4 * 2;
      if (ReadAll(p, read.end, first_query + own_row, kOwnRows, first_key,
                  kTileRows)) {
        ToProbabilities<false>(s, statistics, p, read.end, query, key);
      } else {
        ToProbabilities<true>(s, statistics, p, read.end, query, key);
      }
    };
    if (tiles > 1) load(1, 1, p.packed);
    CopyAsyncCommit();
    WarpgroupFence(s, ds, dq);
    Multiply<T, kDepth>(s, q.value, k_at);
    Multiply<T, kDepth>(ds, d_o.value, v_at);
    WarpgroupCommit();
    WarpgroupWait<0>(s, ds);
    to_probabilities(0);
    ToScoreGrads(ds, s, statistics);
    PackSums<T>(grads, ds);
    int stage = 0;
    // The gradients of a tile's scores are there; the tile before it has been read.
    for (int tile = 1;; ++tile) {
      CopyAsyncWait<0>();
      ProxyFence();
      SyncThreads();
      const TileDescriptor k = k_at.Plus(stage * 2 * Tiles::kStage);
      if (tile == tiles) {
        WarpgroupFence(dq, grads);
        AddProduct<T, kDepth>(dq, grads, k);
        WarpgroupCommit();
        break;
      }
      const int last_stage = stage;
      stage = stage == kStages - 1 ? 0 : stage + 1;
      const bool more = tile + 1 < tiles;
      const int next_stage = kStages - last_stage - stage;  // the third one
      // A load by elements is a loop, which ptxas suffers in front of products, but not
      // between them and their wait.
      if (more && !p.packed) load(tile + 1, next_stage, false);
      WarpgroupFence(s, ds, dq, grads);
      Multiply<T, kDepth>(s, q.value, k_at.Plus(stage * 2 * Tiles::kStage));
      WarpgroupCommit();
      Multiply<T, kDepth>(ds, d_o.value, v_at.Plus(stage * 2 * Tiles::kStage));
      WarpgroupCommit();
      AddProduct<T, kDepth>(dq, grads, k);
      WarpgroupCommit();
      if (more && p.packed) load(tile + 1, next_stage, true);
      CopyAsyncCommit();
      WarpgroupWait<2>(s);
      to_probabilities(tile);
      WarpgroupWait<1>(ds);
      ToScoreGrads(ds, s, statistics);
      WarpgroupWait<0>(dq, grads);
      PackSums<T>(grads, ds);
    }
    WarpgroupWait<0>(dq);
  }
  // All have read q: a barrier has come since.
  StorePanels<kBlockRows, kDepth>(dq, {p.scale, p.scale}, shared + q_tile,
                                  HeadOf<T>(p, 0, batch, head, p.queries),
                                  p.out_row[0], first_query, p.queries,
                                  p.depth);
}

// --- Launches ---

template <typename T, int kDepth>
void EnqueueForward(const AttentionParams& p, Queue& queue) {
  const auto heads = static_cast<uint32_t>(p.batch * p.heads);
  LaunchKernel(queue, "attention, warpgroups",
               AttentionWarpgroupForward<T, kDepth>, p,
               {.x = BlocksFor(p.queries, kBlockRows) * heads}, kThreads,
               ForwardTiles<kDepth>::kBytes);
}

template <typename T, int kDepth>
void EnqueueGrad(const AttentionParams& p, Queue& queue) {
  using Keys = KeyGradTiles<kDepth>;
  using Queries = QueryGradTiles<kDepth>;
  const auto heads = static_cast<uint32_t>(p.batch * p.heads);
  const auto key_heads = static_cast<uint32_t>(p.batch * p.key_heads);
  LaunchKernel(queue, "attention grad, keys, warpgroups",
               AttentionWarpgroupGradKeys<T, kDepth>, p,
               {.x = BlocksFor(p.keys, kBlockRows) * key_heads}, kThreads,
               2 * Keys::kElements +
                   kStages * Keys::kTileRows * sizeof(QueryStatistics));
  LaunchKernel(queue, "attention grad, queries, warpgroups",
               AttentionWarpgroupGradQueries<T, kDepth>, p,
               {.x = BlocksFor(p.queries, kBlockRows) * heads}, kThreads,
               2 * Queries::kElements);
}

}  // namespace

void EnqueueWarpgroupAttention(DType dtype, const AttentionParams& p,
                               Queue& queue) {
  OnTypeAndDepth(dtype, p.depth, [&](auto zero, auto depth) {
    EnqueueForward<decltype(zero), depth.value>(p, queue);
  });
}

void EnqueueWarpgroupAttentionGrad(DType dtype, const AttentionParams& p,
                                   Queue& queue) {
  OnTypeAndDepth(dtype, p.depth, [&](auto zero, auto depth) {
    EnqueueGrad<decltype(zero), depth.value>(p, queue);
  });
}

}  // namespace stowage::gpu
