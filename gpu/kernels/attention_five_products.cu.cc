// The gradient of attention in one pass on tensor cores, f16 and bf16, for queries that read
// no later key: five matmuls of tiles and one exponential per score, where the two passes of
// attention_tensor.cu.cc take seven and two.
//
// A block computes a head of an entry. It goes through the tiles of keys, and for each through
// the tiles of queries that read it; so dk and dv of a tile of keys are summed in registers,
// and dq of a tile of queries is updated at each visit.
//
// Between visits the sums of dq are stored in the results: the f32 sums of a row take as many
// bytes as the row's dk and dv, and are stored there. After the tile of keys that contains the
// row, no later key adds to its dq: dq is stored, and then dk and dv. So the pass needs no
// memory besides the results, every sum has one order, and all bytes belong to the block.

#include <cstdint>

#include "base/result.h"
#include "gpu/kernels/attention_params.h"
#include "gpu/kernels/attention_tiles.h"
#include "gpu/kernels/fragments.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {
namespace {

// Sizes of tiles, such that accumulators fit the 255 registers of a thread, and tiles
// the 99 KiB that a block may have on every device from 8.0 on.
template <int kDepth>
struct Tiles {
  static constexpr int kWarps = kDepth == 32 ? 8 : 4;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kM = kDepth == 64 ? 2 : 1;
  static constexpr int kKeys = 16 * kM * kWarps;
  static constexpr int kQueries = kDepth == 32 ? 128 : 32;
  // A warp has one of so many strips of 16 rows of dq, and so many columns.
  static constexpr int kQueryStrips = kQueries / 16;
  static constexpr int kColumns = kDepth == 128 ? 64 : 32;
  static_assert(kQueryStrips * (kDepth / kColumns) == kWarps);
  static constexpr int kStage = kQueries * kDepth;
  // Keys and values, two stages of q and d_o, and gradients of scores.
  static constexpr int kElements =
      2 * kKeys * kDepth + 2 * 2 * kStage + kKeys * kQueries;
  static_assert(2 * kElements + 2 * kQueries * sizeof(QueryStatistics) <=
                99 * 1024);
};

// Which of a tile's dq this warp adds up: 16 rows, from `row` on, and kColumns
// columns. It is worked out where it is needed, and takes no registers between.
struct Part {
  int row, column;
};
template <int kDepth>
STOWAGE_DEVICE Part PartOfWarp() {
  constexpr int kStrips = Tiles<kDepth>::kQueryStrips;
  const int warp = NotInAdvance(Warp());
  return {warp % kStrips * 16, warp / kStrips * Tiles<kDepth>::kColumns};
}

// Writes this warp's strips of gradients of scores, rounded, to the tile that
// begins at `tile`: a row is a key, a column a query.
template <int kWarps, int kQueries, int kM, typename T>
STOWAGE_DEVICE void StoreScoreGrads(const float (&ds)[kM][kQueries / 8][4],
                                    T* shared, int tile, Strips strips) {
  // Chunks of a row differ by an exclusive or of their numbers' bits.
  const int lane = NotInAdvance(Lane());
  const int at = tile + Swizzled<kQueries>(StripRow<kWarps>(0) + lane / 4, 0) +
                 lane % 4 * 2;
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    if (!strips.Has(i)) continue;
    STOWAGE_UNROLL
    for (int n = 0; n < kQueries / 8; ++n) {
      STOWAGE_UNROLL
      for (int half = 0; half < 2; ++half) {
        T* to = shared + (at ^ n * 8) + (i * kWarps * 16 + half * 8) * kQueries;
        *reinterpret_cast<uint32_t*>(to) =
            PackTwo<T>(ds[i][n][2 * half], ds[i][n][2 * half + 1]);
      }
    }
  }
}

// dq, of 16 queries and the columns of this warp, += ds k over the first
// `strips` strips of 16 keys.
template <int kDepth, int kColumns, typename T>
STOWAGE_DEVICE void AddKeyRows(float (&dq)[kColumns / 8][4], const T* shared,
                               int ds_tile, int k_tile, int strips) {
  using Tile = Tiles<kDepth>;
  const int lane = NotInAdvance(Lane());
  const Part part = PartOfWarp<kDepth>();
  const int ds_at =
      ds_tile + Swizzled<Tile::kQueries>(lane / 16 * 8 + lane % 8,
                                         part.row / 8 + lane / 8 % 2);
  const int k_at =
      k_tile + Swizzled<kDepth>(lane % 16, part.column / 8 + lane / 16);
  STOWAGE_UNROLL_BY(4)
  for (int k = 0; k < strips; ++k) {
    uint32_t a[4];  // transposed: a row is a query
    LoadMatrix4Transposed(a, shared + ds_at + k * 16 * Tile::kQueries);
    STOWAGE_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      uint32_t b[4];
      LoadMatrix4Transposed(b, shared + (k_at ^ n * 16) + k * 16 * kDepth);
      MultiplyAdd<T>(dq[2 * n], a, b);
      MultiplyAdd<T>(dq[2 * n + 1], a, b + 2);
    }
  }
}

// The sums of dq that a thread keeps between two visits: two rows, eight apart, of which four
// lanes share each. Of 16 sums of a row a lane has two pairs, 16 bytes, which it stores in 16
// elements of dk or of dv. It reads only bytes that it has written itself.
template <typename T, int kColumns>
struct SumsInResults {
  T* first = nullptr;  // of the first row
  int64_t eight = 0;   // rows on
  int rows = 0;        // how many rows there are from the first on
  int columns = 0;     // how many of the warp's columns there are

  // Calls f(place, pairs of sums) for each 16 bytes.
  template <typename F>
  STOWAGE_DEVICE void ForEach(float (&dq)[kColumns / 8][4], F&& f) const {
    STOWAGE_UNROLL
    for (int half = 0; half < 2; ++half) {
      if (half * 8 >= rows) continue;
      STOWAGE_UNROLL
      for (int n = 0; n < kColumns / 8; n += 2) {
        if (n * 8 >= columns) continue;
        f(reinterpret_cast<float*>(first + half * eight + n * 8),
          &dq[n][2 * half], &dq[n + 1][2 * half]);
      }
    }
  }
  STOWAGE_DEVICE void Load(float (&dq)[kColumns / 8][4]) const {
    ForEach(dq, [](const float* from, float* left, float* right) {
      const Pack<float> pack = LoadPack(from);
      left[0] = pack.value[0];
      left[1] = pack.value[1];
      right[0] = pack.value[2];
      right[1] = pack.value[3];
    });
  }
  STOWAGE_DEVICE void Store(float (&dq)[kColumns / 8][4]) const {
    ForEach(dq, [](float* to, const float* left, const float* right) {
      StorePack(to, Pack<float>{{left[0], left[1], right[0], right[1]}});
    });
  }
};

// The sums of this thread in the tile that begins with query `first`.
template <typename T, int kDepth>
STOWAGE_DEVICE SumsInResults<T, Tiles<kDepth>::kColumns> SumsOf(
    const AttentionParams& p, int batch, int head, int first) {
  const Part part = PartOfWarp<kDepth>();
  const int lane = Lane() % 4;
  const int row = first + part.row + Lane() / 4;
  T* result = static_cast<T*>(lane < 2 ? p.out[1] : p.out[2]);
  const int64_t at =
      (static_cast<int64_t>(batch) * p.keys + row) * p.out_row[1] +
      static_cast<int64_t>(head) * p.depth + part.column + lane % 2 * 8;
  return {result + at, 8 * p.out_row[1], p.queries - row,
          p.depth - part.column};
}

// All gradients of one head of one entry.
template <typename T, int kDepth>
STOWAGE_KERNEL(Tiles<kDepth>::kThreads)
AttentionGradFiveProducts(STOWAGE_PARAMS(AttentionParams) p) {
  using Tile = Tiles<kDepth>;
  constexpr int kWarps = Tile::kWarps;
  constexpr int kThreads = Tile::kThreads;
  constexpr int kM = Tile::kM;
  constexpr int kKeys = Tile::kKeys;
  constexpr int kQueries = Tile::kQueries;
  constexpr int kColumns = Tile::kColumns;
  T* shared = DynamicShared<T>();
  constexpr int k_tile = 0;
  constexpr int v_tile = kKeys * kDepth;
  constexpr int q_tiles = 2 * v_tile;  // two, and two of d_o
  constexpr int d_o_tiles = q_tiles + 2 * Tile::kStage;
  constexpr int ds_tile = d_o_tiles + 2 * Tile::kStage;
  STOWAGE_SHARED(QueryStatistics, statistics, 2 * kQueries);

  const int head = BlockId();
  const int batch = BlockIdY();
  const auto load_keys = [&](int first) {
    LoadTile<kKeys, kDepth, kThreads>(shared + k_tile,
                                      HeadOf<T>(p.k, batch, head), p.k.row,
                                      first, p.keys, p.depth, p.packed);
    LoadTile<kKeys, kDepth, kThreads>(shared + v_tile,
                                      HeadOf<T>(p.v, batch, head), p.v.row,
                                      first, p.keys, p.depth, p.packed);
  };
  const auto load_queries = [&](int stage, int first) {
    LoadTile<kQueries, kDepth, kThreads>(
        shared + q_tiles + stage * Tile::kStage, HeadOf<T>(p.q, batch, head),
        p.q.row, first, p.queries, p.depth, p.packed);
    LoadTile<kQueries, kDepth, kThreads>(
        shared + d_o_tiles + stage * Tile::kStage,
        HeadOf<T>(p.d_o, batch, head), p.d_o.row, first, p.queries, p.depth,
        p.packed);
  };
  load_keys(0);
  load_queries(0, 0);
  CopyAsyncCommit();
  if (ThreadId() < kQueries) {
    statistics[ThreadId()] = LoadStatistics(p, batch, head, ThreadId());
  }

  int stage = 0;
  for (int first_key = 0; first_key < p.keys; first_key += kKeys) {
    float dk[kM][kDepth / 8][4];
    float dv[kM][kDepth / 8][4];
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      SetZero(dk[i]);
      SetZero(dv[i]);
    }
    const int end_query = Readers(p, p.keys, first_key, kKeys, kQueries).end;
    for (int first_query = first_key; first_query < end_query;
         first_query += kQueries) {
      CopyAsyncWait<0>();
      SyncThreads();  // and the other stage and the tile of ds have been read
      // After the last tile come the queries that read the next tile of keys.
      int next_query = first_query + kQueries;
      if (next_query >= end_query) next_query = first_key + kKeys;
      const bool more = next_query < p.queries;
      if (more) load_queries(1 - stage, next_query);
      CopyAsyncCommit();
      QueryStatistics next{};
      if (more && ThreadId() < kQueries) {
        next = LoadStatistics(p, batch, head, next_query + ThreadId());
      }
      const int q_tile = q_tiles + stage * Tile::kStage;
      const int d_o_tile = d_o_tiles + stage * Tile::kStage;
      const QueryStatistics* its = &statistics[stage * kQueries];
      // The dq of earlier tiles of keys. If all keys are read, it is loaded when p has left its
      // registers, while ds is added to dk.
      float before[kColumns / 8][4];
      SetZero(before);
      const auto load_sums = [&] {
        if (KeysRead(p, p.keys, first_query, kQueries, kKeys).begin <
            first_key) {
          SumsOf<T, kDepth>(p, batch, head, first_query).Load(before);
        }
      };
      // How many strips of keys this warp's queries read, or more.
      int strips = kKeys / 16;
      if (ReadAll(p, p.keys, first_query, kQueries, first_key, kKeys)) {
        AddQueries<kWarps, false, kDepth, kQueries>(
            dk, dv, shared, k_tile, v_tile, q_tile, d_o_tile, its, first_key,
            first_query, p.keys, p, [&](const auto& ds, Strips its_strips) {
              StoreScoreGrads<kWarps, kQueries>(ds, shared, ds_tile,
                                                its_strips);
              load_sums();
            });
      } else {
        AddQueries<kWarps, true, kDepth, kQueries>(
            dk, dv, shared, k_tile, v_tile, q_tile, d_o_tile, its, first_key,
            first_query, p.keys, p, [&](const auto& ds, Strips its_strips) {
              StoreScoreGrads<kWarps, kQueries>(ds, shared, ds_tile,
                                                its_strips);
            });
        load_sums();
        const int up_to_diagonal =
            (first_query + PartOfWarp<kDepth>().row - first_key) / 16 + 1;
        strips = up_to_diagonal < strips ? up_to_diagonal : strips;
      }
      SyncThreads();  // ds is there; q and d_o have been read
      float dq[kColumns / 8][4];
      SetZero(dq);
      AddKeyRows<kDepth, kColumns>(dq, shared, ds_tile, k_tile, strips);
      STOWAGE_UNROLL
      for (int n = 0; n < kColumns / 8; ++n) {
        STOWAGE_UNROLL
        for (int e = 0; e < 4; ++e) dq[n][e] += before[n][e];
      }
      if (first_query < first_key + kKeys) {  // the last visit
        const Part part = PartOfWarp<kDepth>();
        T* dq_head = HeadOf<T>(p, 0, batch, head, p.queries);
        StoreStrip<kColumns>(dq, {p.scale, p.scale}, shared + q_tile,
                             NotInAdvance(Warp() * 16), dq_head + part.column,
                             p.out_row[0], first_query + part.row, p.queries,
                             p.depth - part.column);
      } else {
        SumsOf<T, kDepth>(p, batch, head, first_query).Store(dq);
      }
      if (more && ThreadId() < kQueries) {
        statistics[(1 - stage) * kQueries + ThreadId()] = next;
      }
      stage = 1 - stage;
    }
    // The keys have been read, and so have the sums in their rows.
    SyncThreads();
    T* dk_head = HeadOf<T>(p, 1, batch, head, p.keys);
    T* dv_head = HeadOf<T>(p, 2, batch, head, p.keys);
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      const int row = NotInAdvance(StripRow<kWarps>(i));
      StoreStrip<kDepth>(dk[i], {p.scale, p.scale}, shared + k_tile, row,
                         dk_head, p.out_row[1], first_key + row, p.keys,
                         p.depth);
      StoreStrip<kDepth>(dv[i], {1, 1}, shared + v_tile, row, dv_head,
                         p.out_row[2], first_key + row, p.keys, p.depth);
    }
    if (first_key + kKeys < p.keys) {
      SyncThreads();
      load_keys(first_key + kKeys);
      CopyAsyncCommit();
    }
  }
}

}  // namespace

bool TakesFiveProducts(DType dtype, const AttentionParams& p) {
  return SizeOf(dtype) == 2 && p.depth <= kTensorDepth && p.depth % 16 == 0 &&
         p.bias.data == nullptr && p.key_lengths == nullptr &&
         p.queries == p.keys && p.heads == p.key_heads && p.high == 0 &&
         p.batch <= kMaxGridY;
}

void EnqueueFiveProductAttentionGrad(DType dtype, const AttentionParams& p,
                                     Queue& queue) {
  STOWAGE_CHECK(TakesFiveProducts(dtype, p));
  OnTypeAndDepth(dtype, p.depth, [&](auto zero, auto depth) {
    using T = decltype(zero);
    using Tile = Tiles<depth.value>;
    LaunchKernel(queue, "attention grad, five products",
                 AttentionGradFiveProducts<T, depth.value>, p,
                 {.x = static_cast<uint32_t>(p.heads),
                  .y = static_cast<uint32_t>(p.batch)},
                 Tile::kThreads, Tile::kElements * sizeof(T));
  });
}

}  // namespace stowage::gpu
