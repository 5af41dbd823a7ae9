// Attention on tensor cores, f16 and bf16: the forward pass of FlashAttention-2 (Dao 2023),
// and a gradient in two passes, one over tiles of keys for dk and dv, one over tiles of
// queries for dq. Each recomputes the probabilities from log_sum_exp; so every result is
// written by one block, in a fixed order of adding, and nothing is kept between the passes.
//
// Probabilities never leave the registers: the accumulators of one matmul are the left operand
// of the next. For dk and dv that requires the transposed scores, k q^T.

#include <cmath>
#include <cstdint>

#include "gpu/kernels/attention_params.h"
#include "gpu/kernels/attention_tiles.h"
#include "gpu/queue.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;

// Sizes of tiles, such that accumulators fit the 255 registers of a thread.
template <int kDepth>
struct ForwardTiles {
  static constexpr int kM = 2;
  static constexpr int kQueries = 16 * kM * kWarps;
  static constexpr int kKeys = kDepth == 128 ? 32 : 64;
  static constexpr int kElements = (kQueries + 2 * 2 * kKeys) * kDepth;
};
template <int kDepth>
struct KeyGradTiles {
  static constexpr int kM = kDepth == 128 ? 1 : 2;
  static constexpr int kKeys = 16 * kM * kWarps;
  static constexpr int kQueries = 32;
  static constexpr int kElements = (2 * kKeys + 2 * 2 * kQueries) * kDepth;
};
template <int kDepth>
struct QueryGradTiles {
  static constexpr int kM = kDepth == 128 ? 1 : 2;
  static constexpr int kQueries = 16 * kM * kWarps;
  static constexpr int kKeys = kDepth == 128 ? 64 : 32;
  static constexpr int kElements = (2 * kQueries + 2 * 2 * kKeys) * kDepth;
};

// --- Forward ---

// A thread's state of its queries: rows lane / 4 and lane / 4 + 8 of every strip.
template <int kM, int kDepth>
struct OnlineSoftmax {
  float o[kM][kDepth / 8][4];
  OnlineRow rows[kM][2];
};

// Takes one tile of keys into account. With kMasked some scores may be masked.
template <bool kMasked, int kDepth, int kKeys, int kM, typename T>
STOWAGE_DEVICE void AddKeys(OnlineSoftmax<kM, kDepth>& state, const T* shared,
                            int q_tile, int k_tile, int v_tile, int first_query,
                            int first_key, int keys, const AttentionParams& p) {
  const float scale2 = p.scale * kLog2E;
  Strips strips{0, kM};
  if (kMasked) {  // strips above the diagonal see none of these keys
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      if (first_query + StripRow<kWarps>(i) + 15 + p.high < first_key) {
        strips.begin = i + 1;
      }
    }
    if (strips.begin == kM) return;
    // With wide rows, telling strips apart takes registers that are not there;
    // one that sees nothing then adds zeros.
    if (kDepth == 128) strips.begin = 0;
  }
  float s[kM][kKeys / 8][4];
  MultiplyTiles<kWarps, kDepth, kM, kKeys>(s, shared, q_tile, k_tile, strips);
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    if (!strips.Has(i)) continue;
    if (kMasked) {
      MaskScores(s[i], p, keys, first_query + StripRow<kWarps>(i) + Lane() / 4,
                 first_key + Lane() % 4 * 2);
    }
    STOWAGE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float correction =
          TakeScores<kMasked>(s[i], half, scale2, state.rows[i][half]);
      ScaleRows(state.o[i], half, correction);
    }
  }
  AddWeighted<kDepth, kM, kKeys>(state.o, s, shared, v_tile, strips);
}

template <typename T, int kDepth>
STOWAGE_KERNEL(kThreads)
AttentionForward(STOWAGE_PARAMS(AttentionParams) p) {
  using Tiles = ForwardTiles<kDepth>;
  constexpr int kM = Tiles::kM;
  constexpr int kStage = Tiles::kKeys * kDepth;
  T* shared = DynamicShared<T>();
  constexpr int q_tile = 0;
  constexpr int k_tiles = Tiles::kQueries * kDepth;  // two, and two of v
  constexpr int v_tiles = k_tiles + 2 * kStage;

  const QueryTile its = QueryTileOf<Tiles::kQueries>(p, BlockId());
  const int first_query = its.first_query, head = its.head, batch = its.batch;
  const int key_head = head / (p.heads / p.key_heads);
  const AttentionRange read =
      KeysRead(p, KeysOf(p, batch), first_query, Tiles::kQueries, Tiles::kKeys);
  // With wide rows, no registers are left for more.
  const auto load_keys = [&](int first) {
    const T* k = HeadOf<T>(p.k, NotInAdvance(batch), NotInAdvance(key_head));
    const T* v = HeadOf<T>(p.v, NotInAdvance(batch), NotInAdvance(key_head));
    const int stage = first / Tiles::kKeys % 2 * kStage;
    LoadTile<Tiles::kKeys, kDepth, kThreads>(shared + k_tiles + stage, k,
                                             p.k.row, first, read.end, p.depth,
                                             p.packed);
    LoadTile<Tiles::kKeys, kDepth, kThreads>(shared + v_tiles + stage, v,
                                             p.v.row, first, read.end, p.depth,
                                             p.packed);
  };
  LoadTile<Tiles::kQueries, kDepth, kThreads>(
      shared + q_tile, HeadOf<T>(p.q, batch, head), p.q.row, first_query,
      p.queries, p.depth, p.packed);
  load_keys(read.begin);
  CopyAsyncCommit();

  OnlineSoftmax<kM, kDepth> state;
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) SetZero(state.o[i]);

  for (int first_key = read.begin; first_key < read.end;
       first_key += Tiles::kKeys) {
    CopyAsyncWait<0>();
    SyncThreads();  // and the other stage has been read
    const int next_key = first_key + Tiles::kKeys;
    if (next_key < read.end) load_keys(next_key);
    CopyAsyncCommit();
    const int stage = first_key / Tiles::kKeys % 2 * kStage;
    const int k_tile = k_tiles + stage;
    const int v_tile = v_tiles + stage;
    const int query = NotInAdvance(first_query);
    const int end = NotInAdvance(read.end);
    if (!ReadAll(p, end, query, Tiles::kQueries, first_key, Tiles::kKeys)) {
      AddKeys<true, kDepth, Tiles::kKeys>(state, shared, q_tile, k_tile, v_tile,
                                          query, first_key, end, p);
    } else {
      AddKeys<false, kDepth, Tiles::kKeys>(state, shared, q_tile, k_tile,
                                           v_tile, query, first_key, end, p);
    }
  }
  CopyAsyncWait<0>();  // where there was nothing to read
  SyncThreads();

  // Not kept, either.
  const QueryTile done =
      QueryTileOf<Tiles::kQueries>(p, NotInAdvance(BlockId()));
  T* o = HeadOf<T>(p, 0, done.batch, done.head, p.queries);
  float* log_sum_exp = p.log_sum_exp + StatisticsOf(p, done.batch, done.head);
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    const int strip_row = StripRow<kWarps>(i);
    float factor[2];
    STOWAGE_UNROLL
    for (int half = 0; half < 2; ++half) {
      factor[half] =
          FinishRow(state.rows[i][half], p, log_sum_exp,
                    done.first_query + strip_row + Lane() / 4 + half * 8);
    }
    StoreStrip<kDepth>(state.o[i], factor, shared + q_tile, strip_row, o,
                       p.out_row[0], done.first_query + strip_row, p.queries,
                       p.depth);
  }
}

// --- Gradient ---

// dk and dv of one tile of keys, summed over the query heads that share them.
template <typename T, int kDepth>
STOWAGE_KERNEL(kThreads)
AttentionGradKeys(STOWAGE_PARAMS(AttentionParams) p) {
  using Tiles = KeyGradTiles<kDepth>;
  constexpr int kM = Tiles::kM;
  constexpr int kStage = Tiles::kQueries * kDepth;
  T* shared = DynamicShared<T>();
  constexpr int k_tile = 0;
  constexpr int v_tile = Tiles::kKeys * kDepth;
  constexpr int q_tiles = 2 * v_tile;  // two, and two of d_o
  constexpr int d_o_tiles = q_tiles + 2 * kStage;
  STOWAGE_SHARED(QueryStatistics, statistics, 2 * Tiles::kQueries);

  // The tiles that most queries see come first.
  const int tiles = TilesOf(p.keys, Tiles::kKeys);
  const int first_key = BlockId() % tiles * Tiles::kKeys;
  const int key_head = BlockId() / tiles % p.key_heads;
  const int batch = BlockId() / tiles / p.key_heads;
  const int group = p.heads / p.key_heads;
  const int keys = KeysOf(p, batch);
  const AttentionRange readers =
      Readers(p, keys, first_key, Tiles::kKeys, Tiles::kQueries);
  // No head has anything to do where nothing reads these keys.
  const int end_head =
      readers.begin < readers.end ? (key_head + 1) * group : key_head * group;

  const auto load_queries = [&](int stage, int head, int first) {
    LoadTile<Tiles::kQueries, kDepth, kThreads>(
        shared + q_tiles + stage * kStage, HeadOf<T>(p.q, batch, head), p.q.row,
        first, p.queries, p.depth, p.packed);
    LoadTile<Tiles::kQueries, kDepth, kThreads>(
        shared + d_o_tiles + stage * kStage, HeadOf<T>(p.d_o, batch, head),
        p.d_o.row, first, p.queries, p.depth, p.packed);
  };
  LoadTile<Tiles::kKeys, kDepth, kThreads>(
      shared + k_tile, HeadOf<T>(p.k, batch, key_head), p.k.row, first_key,
      keys, p.depth, p.packed);
  LoadTile<Tiles::kKeys, kDepth, kThreads>(
      shared + v_tile, HeadOf<T>(p.v, batch, key_head), p.v.row, first_key,
      keys, p.depth, p.packed);
  // The tile that is loaded next, and the one that is worked on.
  int next_head = key_head * group;
  int next_query = readers.begin;
  int first_query = readers.begin;
  load_queries(0, next_head, next_query);
  CopyAsyncCommit();
  if (ThreadId() < Tiles::kQueries) {
    statistics[ThreadId()] =
        LoadStatistics(p, batch, next_head, next_query + ThreadId());
  }

  float dk[kM][kDepth / 8][4];
  float dv[kM][kDepth / 8][4];
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    SetZero(dk[i]);
    SetZero(dv[i]);
  }

  for (int stage = 0; next_head < end_head; stage = 1 - stage) {
    CopyAsyncWait<0>();
    SyncThreads();  // and the other stage has been read
    next_query += Tiles::kQueries;
    if (next_query >= readers.end) {
      next_query = readers.begin;
      ++next_head;
    }
    const bool more = next_head < end_head;
    if (more) load_queries(1 - stage, next_head, next_query);
    CopyAsyncCommit();
    QueryStatistics next{};
    if (more && ThreadId() < Tiles::kQueries) {
      next = LoadStatistics(p, batch, next_head, next_query + ThreadId());
    }
    const int q_tile = q_tiles + stage * kStage;
    const int d_o_tile = d_o_tiles + stage * kStage;
    const QueryStatistics* its = &statistics[stage * Tiles::kQueries];
    if (!ReadAll(p, keys, first_query, Tiles::kQueries, first_key,
                 Tiles::kKeys)) {
      AddQueries<kWarps, true, kDepth, Tiles::kQueries>(
          dk, dv, shared, k_tile, v_tile, q_tile, d_o_tile, its, first_key,
          first_query, keys, p, [](const auto&, Strips) {});
    } else {
      AddQueries<kWarps, false, kDepth, Tiles::kQueries>(
          dk, dv, shared, k_tile, v_tile, q_tile, d_o_tile, its, first_key,
          first_query, keys, p, [](const auto&, Strips) {});
    }
    if (more && ThreadId() < Tiles::kQueries) {
      statistics[(1 - stage) * Tiles::kQueries + ThreadId()] = next;
    }
    first_query = next_query;
  }

  CopyAsyncWait<0>();  // where nothing read the keys
  SyncThreads();
  T* dk_head = HeadOf<T>(p, 1, batch, key_head, p.keys);
  T* dv_head = HeadOf<T>(p, 2, batch, key_head, p.keys);
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    const int strip_row = StripRow<kWarps>(i);
    StoreStrip<kDepth>(dk[i], {p.scale, p.scale}, shared + k_tile, strip_row,
                       dk_head, p.out_row[1], first_key + strip_row, p.keys,
                       p.depth);
    StoreStrip<kDepth>(dv[i], {1, 1}, shared + v_tile, strip_row, dv_head,
                       p.out_row[2], first_key + strip_row, p.keys, p.depth);
  }
}

// Takes one tile of keys into account, for the queries of this block.
template <bool kMasked, int kDepth, int kKeys, int kM, typename T>
STOWAGE_DEVICE void AddKeysToGrad(float (&dq)[kM][kDepth / 8][4],
                                  const T* shared, int q_tile, int d_o_tile,
                                  int k_tile, int v_tile,
                                  const QueryStatistics (&statistics)[kM][2],
                                  int first_query, int first_key, int keys,
                                  const AttentionParams& params) {
  Strips strips{0, kM};
  if (kMasked) {
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      if (first_query + StripRow<kWarps>(i) + 15 + params.high < first_key) {
        strips.begin = i + 1;
      }
    }
    if (strips.begin == kM) return;
  }
  float p[kM][kKeys / 8][4];
  MultiplyTiles<kWarps, kDepth, kM, kKeys>(p, shared, q_tile, k_tile, strips);
  float ds[kM][kKeys / 8][4];
  MultiplyTiles<kWarps, kDepth, kM, kKeys>(ds, shared, d_o_tile, v_tile,
                                           strips);
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    ToProbabilities<kMasked>(p[i], statistics[i], params, keys,
                             first_query + StripRow<kWarps>(i) + Lane() / 4,
                             first_key + Lane() % 4 * 2);
    ToScoreGrads(ds[i], p[i], statistics[i]);
  }
  AddWeighted<kDepth, kM, kKeys>(dq, ds, shared, k_tile, strips);
}

// dq of one tile of queries.
template <typename T, int kDepth>
STOWAGE_KERNEL(kThreads)
AttentionGradQueries(STOWAGE_PARAMS(AttentionParams) p) {
  using Tiles = QueryGradTiles<kDepth>;
  constexpr int kM = Tiles::kM;
  constexpr int kStage = Tiles::kKeys * kDepth;
  T* shared = DynamicShared<T>();
  constexpr int q_tile = 0;
  constexpr int d_o_tile = Tiles::kQueries * kDepth;
  constexpr int k_tiles = 2 * d_o_tile;  // two, and two of v
  constexpr int v_tiles = k_tiles + 2 * kStage;

  const QueryTile its = QueryTileOf<Tiles::kQueries>(p, BlockId());
  const int first_query = its.first_query, head = its.head, batch = its.batch;
  const int key_head = head / (p.heads / p.key_heads);
  const AttentionRange read =
      KeysRead(p, KeysOf(p, batch), first_query, Tiles::kQueries, Tiles::kKeys);
  // As in the forward pass.
  const auto load_keys = [&](int first) {
    const T* k = HeadOf<T>(p.k, NotInAdvance(batch), NotInAdvance(key_head));
    const T* v = HeadOf<T>(p.v, NotInAdvance(batch), NotInAdvance(key_head));
    const int stage = first / Tiles::kKeys % 2 * kStage;
    LoadTile<Tiles::kKeys, kDepth, kThreads>(shared + k_tiles + stage, k,
                                             p.k.row, first, read.end, p.depth,
                                             p.packed);
    LoadTile<Tiles::kKeys, kDepth, kThreads>(shared + v_tiles + stage, v,
                                             p.v.row, first, read.end, p.depth,
                                             p.packed);
  };
  LoadTile<Tiles::kQueries, kDepth, kThreads>(
      shared + q_tile, HeadOf<T>(p.q, batch, head), p.q.row, first_query,
      p.queries, p.depth, p.packed);
  LoadTile<Tiles::kQueries, kDepth, kThreads>(
      shared + d_o_tile, HeadOf<T>(p.d_o, batch, head), p.d_o.row, first_query,
      p.queries, p.depth, p.packed);
  load_keys(read.begin);
  CopyAsyncCommit();

  QueryStatistics statistics[kM][2];
  float dq[kM][kDepth / 8][4];
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    STOWAGE_UNROLL
    for (int half = 0; half < 2; ++half) {
      statistics[i][half] = LoadStatistics(
          p, batch, head,
          first_query + StripRow<kWarps>(i) + Lane() / 4 + half * 8);
    }
    SetZero(dq[i]);
  }

  for (int first_key = read.begin; first_key < read.end;
       first_key += Tiles::kKeys) {
    CopyAsyncWait<0>();
    SyncThreads();  // and the other stage has been read
    const int next_key = first_key + Tiles::kKeys;
    if (next_key < read.end) load_keys(next_key);
    CopyAsyncCommit();
    const int stage = first_key / Tiles::kKeys % 2 * kStage;
    const int k_tile = k_tiles + stage;
    const int v_tile = v_tiles + stage;
    if (!ReadAll(p, read.end, first_query, Tiles::kQueries, first_key,
                 Tiles::kKeys)) {
      AddKeysToGrad<true, kDepth, Tiles::kKeys>(
          dq, shared, q_tile, d_o_tile, k_tile, v_tile, statistics, first_query,
          first_key, read.end, p);
    } else {
      AddKeysToGrad<false, kDepth, Tiles::kKeys>(
          dq, shared, q_tile, d_o_tile, k_tile, v_tile, statistics, first_query,
          first_key, read.end, p);
    }
  }
  CopyAsyncWait<0>();  // where there was nothing to read
  SyncThreads();

  T* dq_head = HeadOf<T>(p, 0, batch, head, p.queries);
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    const int strip_row = StripRow<kWarps>(i);
    StoreStrip<kDepth>(dq[i], {p.scale, p.scale}, shared + q_tile, strip_row,
                       dq_head, p.out_row[0], first_query + strip_row,
                       p.queries, p.depth);
  }
}

// --- Launches ---

template <typename T, int kDepth>
void EnqueueForward(const AttentionParams& p, Queue& queue) {
  using Tiles = ForwardTiles<kDepth>;
  const uint32_t tiles = BlocksFor(p.queries, Tiles::kQueries);
  const auto heads = static_cast<uint32_t>(p.batch * p.heads);
  LaunchKernel(queue, "attention", AttentionForward<T, kDepth>, p,
               {.x = tiles * heads}, kThreads, Tiles::kElements * sizeof(T));
}

template <typename T, int kDepth>
void EnqueueGrad(const AttentionParams& p, Queue& queue) {
  using Keys = KeyGradTiles<kDepth>;
  using Queries = QueryGradTiles<kDepth>;
  const auto heads = static_cast<uint32_t>(p.batch * p.heads);
  const auto key_heads = static_cast<uint32_t>(p.batch * p.key_heads);
  LaunchKernel(queue, "attention grad, keys", AttentionGradKeys<T, kDepth>, p,
               {.x = BlocksFor(p.keys, Keys::kKeys) * key_heads}, kThreads,
               Keys::kElements * sizeof(T));
  LaunchKernel(queue, "attention grad, queries",
               AttentionGradQueries<T, kDepth>, p,
               {.x = BlocksFor(p.queries, Queries::kQueries) * heads}, kThreads,
               Queries::kElements * sizeof(T));
}

}  // namespace

void EnqueueTensorAttention(DType dtype, const AttentionParams& p,
                            Queue& queue) {
  OnTypeAndDepth(dtype, p.depth, [&](auto zero, auto depth) {
    EnqueueForward<decltype(zero), depth.value>(p, queue);
  });
}

void EnqueueTensorAttentionGrad(DType dtype, const AttentionParams& p,
                                Queue& queue) {
  OnTypeAndDepth(dtype, p.depth, [&](auto zero, auto depth) {
    EnqueueGrad<decltype(zero), depth.value>(p, queue);
  });
}

}  // namespace stowage::gpu
