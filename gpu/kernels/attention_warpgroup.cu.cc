// Attention by matmuls of warpgroups (gpu/warpgroup.h), f16 and bf16: the results of
// attention_tensor.cu.cc, with the same two passes of the gradient.
//
// A block is two warpgroups with 64 rows each, which share the tiles of the other side. A
// warpgroup issues its next matmuls before it processes the results of the last ones, so the
// tensor cores work during exponentials. Thread 0 starts the bulk copies of a tile one tile
// ahead; one SyncThreads per tile allows older tiles to be overwritten.

#include <cmath>
#include <cstdint>

#include "gpu/kernels/attention_panels.h"
#include "gpu/kernels/attention_params.h"
#include "gpu/kernels/attention_tiles.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "gpu/tensor_map.h"
#include "gpu/warpgroup.h"

namespace stowage::gpu {
namespace {

// The tensor maps of the operands.
struct MappedParams {
  TensorMap q, k, v, d_o;
  AttentionParams attention;
};
// A bool would leave padding with stale bytes.
static_assert(sizeof(AttentionParams) % alignof(TensorMap) == 0);

// --- Forward ---

template <int kDepth>
struct ForwardTiles {
  static constexpr int kKeys = 64;
  static constexpr int kOwn = kBlockRows * kDepth;  // elements
  static constexpr int kStage = kKeys * kDepth;
  static constexpr int kElements = kOwn + 2 * 2 * kStage;
  static constexpr int kBytes = 2 * kElements + kBarriers * sizeof(CopyBarrier);
  static constexpr int kBlocks = kDepth == 128 ? 1 : 2;  // of a multiprocessor
};

template <typename T, int kDepth>
STOWAGE_KERNEL(kPanelThreads, ForwardTiles<kDepth>::kBlocks)
AttentionWarpgroupForward(STOWAGE_PARAMS(MappedParams) maps) {
  using Tiles = ForwardTiles<kDepth>;
  constexpr int kKeys = Tiles::kKeys;
  const AttentionParams& p = maps.attention;
  T* shared = SwizzledShared<T>();
  constexpr int q_tile = 0;
  constexpr int k_tiles = Tiles::kOwn;  // two, and two of v
  constexpr int v_tiles = k_tiles + 2 * Tiles::kStage;
  auto* barriers = reinterpret_cast<CopyBarrier*>(shared + Tiles::kElements);

  const QueryTile its = QueryTileOf<kBlockRows>(p, BlockId());
  const int first_query = its.first_query;
  const AttentionRange read =
      KeysRead(p, KeysOf(p, its.batch), first_query, kBlockRows, kKeys);
  const int tiles = TilesOf(read.end - read.begin, kKeys);
  const int key_head = its.head / (p.heads / p.key_heads);
  const auto stage = [](int tile) { return tile % 2 * Tiles::kStage; };
  // By thread 0, load n: k of tile n, and v of tile n - 1.
  const auto load = [&](int n) {
    CopyBarrier* arrival = BarrierOf(barriers, n);
    const auto panels = [&](int at, const TensorMap& map, int tile) {
      LoadPanels<kKeys, kDepth>(shared + at + stage(tile), map,
                                NotInAdvance(its.batch), NotInAdvance(key_head),
                                read.begin + tile * kKeys, arrival);
    };
    ExpectBytes(arrival, (n > 0 && n < tiles ? 2 : 1) * 2 * Tiles::kStage);
    if (n < tiles) panels(k_tiles, maps.k, n);
    if (n > 0) panels(v_tiles, maps.v, n - 1);
  };

  float o[kDepth / 8][4];
  SetZero(o);
  OnlineRow rows[2];
  const int row = Warp() * 16 + Lane() / 4;  // of the tile, of half 0
  if (tiles > 0) {
    if (ThreadId() == 0) {
      InitBarriers(barriers);
      ExpectBytes(OwnBarrier(barriers), 2 * Tiles::kOwn);
      LoadPanels<kBlockRows, kDepth>(shared + q_tile, maps.q, its.batch,
                                     its.head, first_query,
                                     OwnBarrier(barriers));
      load(0);
      load(1);
    }
    SyncThreads();
    const TileDescriptor k_at =
        Describe<kKeys, kDepth>(SharedByte(shared + k_tiles));
    const TileDescriptor v_at =
        Describe<kKeys, kDepth>(SharedByte(shared + v_tiles));
    uint32_t q[kDepth / 16][4];
    AwaitBytes(OwnBarrier(barriers), 0);
    LoadOwnRows<kDepth>(q, shared + q_tile);
    float s[kKeys / 8][4];
    uint32_t weights[kKeys / 16][4];
    AwaitLoad(barriers, 0);
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
      AwaitLoad(barriers, tile);
      if (tile == tiles && read.end < p.keys) {
        ClearRows<kKeys, kDepth>(shared + v_tiles + stage(tile - 1),
                                 read.end - read.begin - (tile - 1) * kKeys);
      }
      SyncThreads();
      const TileDescriptor v = v_at.Plus(2 * stage(tile - 1));
      if (tile == tiles) {
        WarpgroupFence(o, weights);
        AddProduct<T, kDepth>(o, weights, v);
        WarpgroupCommit();
        break;
      }
      if (ThreadId() == 0) load(tile + 1);
      WarpgroupFence(s, o, weights);
      Multiply<T, kDepth>(s, q, k_at.Plus(2 * stage(tile)));
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

  // No other warp reads the rows of q that are overwritten now.
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

// The block's own two tiles, and three stages of two: one for scores, one for the sums of the
// tile before, and one being loaded. Then the statistics of tiles of queries.
constexpr int kStages = 3;
template <int kDepth, int kRows>
struct GradTiles {
  static constexpr int kTileRows = kRows;
  static constexpr int kOwn = kBlockRows * kDepth;
  static constexpr int kStage = kTileRows * kDepth;
  static constexpr int kElements = 2 * kOwn + kStages * 2 * kStage;
  static constexpr int kOwnBytes = 2 * 2 * kOwn;
  static constexpr int kStageBytes = 2 * 2 * kStage;
};
// As many rows as accumulators fit the 255 registers of a thread.
template <int kDepth>
using KeyGradTiles = GradTiles<kDepth, kDepth == 128 ? 32 : 64>;
template <int kDepth>
using QueryGradTiles = GradTiles<kDepth, 64>;

// A left factor of kOwnRows rows: its place, or its registers.
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
STOWAGE_KERNEL(kPanelThreads, 1)
AttentionWarpgroupGradKeys(STOWAGE_PARAMS(MappedParams) maps) {
  using Tiles = KeyGradTiles<kDepth>;
  constexpr int kTileRows = Tiles::kTileRows;
  const AttentionParams& p = maps.attention;
  T* shared = SwizzledShared<T>();
  constexpr int k_tile = 0;
  constexpr int v_tile = Tiles::kOwn;
  constexpr int q_tiles = 2 * Tiles::kOwn;  // three, and three of d_o
  constexpr int d_o_tiles = q_tiles + kStages * Tiles::kStage;
  auto* statistics =
      reinterpret_cast<QueryStatistics*>(shared + Tiles::kElements);
  auto* barriers =
      reinterpret_cast<CopyBarrier*>(statistics + kStages * kTileRows);

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

  // The tile that is loaded next: of which head, from which query on, where to.
  int next_head = key_head * group;
  int next_query = readers.begin;
  int next_stage = 0;
  const auto load = [&](int step) {
    QueryStatistics loaded{};
    if (ThreadId() < kTileRows) {
      loaded = LoadStatistics(p, batch, next_head, next_query + ThreadId());
    }
    if (ThreadId() == 0) {
      CopyBarrier* arrival = BarrierOf(barriers, step);
      T* to = shared + next_stage * Tiles::kStage;
      ExpectBytes(arrival, Tiles::kStageBytes);
      LoadPanels<kTileRows, kDepth>(to + q_tiles, maps.q, batch, next_head,
                                    next_query, arrival);
      LoadPanels<kTileRows, kDepth>(to + d_o_tiles, maps.d_o, batch, next_head,
                                    next_query, arrival);
    }
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

  float dk[kDepth / 8][4], dv[kDepth / 8][4];
  SetZero(dk);
  SetZero(dv);
  if (steps > 0) {
    if (ThreadId() == 0) {
      InitBarriers(barriers);
      CopyBarrier* arrival = OwnBarrier(barriers);
      ExpectBytes(arrival, Tiles::kOwnBytes);
      LoadPanels<kBlockRows, kDepth>(shared + k_tile, maps.k, batch, key_head,
                                     first_key, arrival);
      LoadPanels<kBlockRows, kDepth>(shared + v_tile, maps.v, batch, key_head,
                                     first_key, arrival);
    }
    keep(0, load(0));
    if (steps > 1) keep(1, load(1));
    SyncThreads();
    AwaitBytes(OwnBarrier(barriers), 0);
    if (keys < p.keys) {
      ClearRows<kBlockRows, kDepth>(shared + v_tile, keys - first_key);
      SyncThreads();
    }
    AwaitLoad(barriers, 0);
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
      if (step < steps) AwaitLoad(barriers, step);
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
      if (step + 1 < steps) loaded = load(step + 1);
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
STOWAGE_KERNEL(kPanelThreads, 1)
AttentionWarpgroupGradQueries(STOWAGE_PARAMS(MappedParams) maps) {
  using Tiles = QueryGradTiles<kDepth>;
  constexpr int kTileRows = Tiles::kTileRows;
  const AttentionParams& p = maps.attention;
  T* shared = SwizzledShared<T>();
  constexpr int q_tile = 0;
  constexpr int d_o_tile = Tiles::kOwn;
  constexpr int k_tiles = 2 * Tiles::kOwn;  // three, and three of v
  constexpr int v_tiles = k_tiles + kStages * Tiles::kStage;
  auto* barriers = reinterpret_cast<CopyBarrier*>(shared + Tiles::kElements);

  const QueryTile its = QueryTileOf<kBlockRows>(p, BlockId());
  const int first_query = its.first_query, head = its.head, batch = its.batch;
  const int key_head = head / (p.heads / p.key_heads);
  const AttentionRange read =
      KeysRead(p, KeysOf(p, batch), first_query, kBlockRows, kTileRows);
  const int tiles = TilesOf(read.end - read.begin, kTileRows);
  // By thread 0.
  const auto load = [&](int tile, int stage) {
    CopyBarrier* arrival = BarrierOf(barriers, tile);
    T* to = shared + stage * Tiles::kStage;
    const int first = read.begin + tile * kTileRows;
    ExpectBytes(arrival, Tiles::kStageBytes);
    LoadPanels<kTileRows, kDepth>(to + k_tiles, maps.k, batch, key_head, first,
                                  arrival);
    LoadPanels<kTileRows, kDepth>(to + v_tiles, maps.v, batch, key_head, first,
                                  arrival);
  };
  const auto await = [&](int tile, int stage) {
    AwaitLoad(barriers, tile);
    if (tile + 1 == tiles && read.end < p.keys) {
      T* at = shared + stage * Tiles::kStage;
      const int rows = read.end - read.begin - tile * kTileRows;
      ClearRows<kTileRows, kDepth>(at + k_tiles, rows);
      ClearRows<kTileRows, kDepth>(at + v_tiles, rows);
    }
  };

  float dq[kDepth / 8][4];
  SetZero(dq);
  if (tiles > 0) {
    if (ThreadId() == 0) {
      InitBarriers(barriers);
      CopyBarrier* arrival = OwnBarrier(barriers);
      ExpectBytes(arrival, Tiles::kOwnBytes);
      LoadPanels<kBlockRows, kDepth>(shared + q_tile, maps.q, batch, head,
                                     first_query, arrival);
      LoadPanels<kBlockRows, kDepth>(shared + d_o_tile, maps.d_o, batch, head,
                                     first_query, arrival);
      load(0, 0);
      if (tiles > 1) load(1, 1);
    }
    SyncThreads();
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
    AwaitBytes(OwnBarrier(barriers), 0);
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
    await(0, 0);
    SyncThreads();
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
      const int last_stage = stage;
      if (tile < tiles) {
        stage = stage == kStages - 1 ? 0 : stage + 1;
        await(tile, stage);
      }
      SyncThreads();
      const TileDescriptor k = k_at.Plus(last_stage * 2 * Tiles::kStage);
      if (tile == tiles) {
        WarpgroupFence(dq, grads);
        AddProduct<T, kDepth>(dq, grads, k);
        WarpgroupCommit();
        break;
      }
      if (tile + 1 < tiles && ThreadId() == 0) {
        load(tile + 1, kStages - last_stage - stage);  // the third one
      }
      WarpgroupFence(s, ds, dq, grads);
      Multiply<T, kDepth>(s, q.value, k_at.Plus(stage * 2 * Tiles::kStage));
      WarpgroupCommit();
      Multiply<T, kDepth>(ds, d_o.value, v_at.Plus(stage * 2 * Tiles::kStage));
      WarpgroupCommit();
      AddProduct<T, kDepth>(dq, grads, k);
      WarpgroupCommit();
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

// The tensor map of an operand with `heads` heads of so many rows, of which one copy loads
// kRows of a head. The step of a dimension of 1 is arbitrary but must be valid.
template <int kRows, int kDepth>
TensorMap MapOf(const AttentionOperand& x, int rows, int heads,
                const AttentionParams& p, Queue& queue) {
  TensorMapSpec spec = {
      .data = x.data,
      .element_bytes = 2,
      .rank = 4,
      .sizes = {p.depth, heads, rows, p.batch},
      .steps = {2, 2 * x.head, 2 * x.row, 2 * x.batch},
      .box = {Panels<kDepth>::kWidth, 1, kRows, 1},
      .swizzle = Panels<kDepth>::kRowBytes,
  };
  for (size_t i = 1; i < 4; ++i) {
    if (spec.sizes[i] == 1)
      spec.steps[i] = spec.steps[i - 1] * spec.sizes[i - 1];
  }
  return queue.Encode(spec);
}

template <int kQueryRows, int kKeyRows, int kDepth>
MappedParams Mapped(const AttentionParams& p, Queue& queue) {
  const auto queries = [&](const AttentionOperand& x) {
    return MapOf<kQueryRows, kDepth>(x, p.queries, p.heads, p, queue);
  };
  const auto keys = [&](const AttentionOperand& x) {
    return MapOf<kKeyRows, kDepth>(x, p.keys, p.key_heads, p, queue);
  };
  const bool is_gradient = p.d_o.data != nullptr;
  return {.q = queries(p.q),
          .k = keys(p.k),
          .v = keys(p.v),
          .d_o = is_gradient ? queries(p.d_o) : TensorMap{},
          .attention = p};
}

template <typename T, int kDepth>
void EnqueueForward(const AttentionParams& p, Queue& queue) {
  using Tiles = ForwardTiles<kDepth>;
  const auto heads = static_cast<uint32_t>(p.batch * p.heads);
  LaunchKernel(queue, "attention, warpgroups",
               AttentionWarpgroupForward<T, kDepth>,
               Mapped<kBlockRows, Tiles::kKeys, kDepth>(p, queue),
               {.x = BlocksFor(p.queries, kBlockRows) * heads}, kPanelThreads,
               Tiles::kBytes);
}

template <typename T, int kDepth>
void EnqueueGrad(const AttentionParams& p, Queue& queue) {
  using Keys = KeyGradTiles<kDepth>;
  using Queries = QueryGradTiles<kDepth>;
  const auto heads = static_cast<uint32_t>(p.batch * p.heads);
  const auto key_heads = static_cast<uint32_t>(p.batch * p.key_heads);
  constexpr uint32_t kBarrierBytes = kBarriers * sizeof(CopyBarrier);
  LaunchKernel(queue, "attention grad, keys, warpgroups",
               AttentionWarpgroupGradKeys<T, kDepth>,
               Mapped<Keys::kTileRows, kBlockRows, kDepth>(p, queue),
               {.x = BlocksFor(p.keys, kBlockRows) * key_heads}, kPanelThreads,
               2 * Keys::kElements +
                   kStages * Keys::kTileRows * sizeof(QueryStatistics) +
                   kBarrierBytes);
  LaunchKernel(queue, "attention grad, queries, warpgroups",
               AttentionWarpgroupGradQueries<T, kDepth>,
               Mapped<kBlockRows, Queries::kTileRows, kDepth>(p, queue),
               {.x = BlocksFor(p.queries, kBlockRows) * heads}, kPanelThreads,
               2 * Queries::kElements + kBarrierBytes);
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
