#ifndef STOWAGE_GPU_KERNELS_ATTENTION_TILES_H_
#define STOWAGE_GPU_KERNELS_ATTENTION_TILES_H_

// Provides the steps of attention on tensor cores with warp-level matmuls: loading tiles to shared
// memory, matmuls of tiles, the masks, softmax and gradients between the matmuls, and the
// contribution of a tile of queries to dk and dv. A tile is a range of rows, queries or keys, of
// one head.
//
// Tiles have the layout of gpu/kernels/fragments.h. Rows beyond the sequence and elements beyond
// the depth of a row are zero.
//
// A block of kWarps warps computes a tile of 16 kM kWarps rows, which is divided into strips of 16
// rows. Each warp computes every kWarps-th strip, kM strips in total, which balances the work of
// warps under a causal mask. The sums of a strip are held in registers with the layout of
// mma.m16n8k16. For every 8 columns, a lane holds a float[4]. The first two numbers are in row lane
// / 4 of the strip (half 0), and the others in row lane / 4 + 8 (half 1). Both pairs are in columns
// 2 (lane % 4) and 2 (lane % 4) + 1. Of the parameters `query` and `key`, one is the position of
// the row of half 0, and the other is the position of the lane's first column.

#include <cmath>
#include <cstdint>

#include "base/result.h"
#include "gpu/kernels/attention_params.h"
#include "gpu/kernels/fragments.h"
#include "gpu/simt.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

/// Starts to copy rows [first, first + kRows) of a head to a tile. `head` points to row 0. Rows are
/// `row_stride` elements apart and have `depth` elements. The head has `length` rows. If `packed`
/// is true, rows must be aligned to 16 bytes, and the copies are asynchronous (CopyAsyncZero16).
template <int kRows, int kDepth, int kThreads, typename T>
STOWAGE_DEVICE void LoadTile(T* tile, const T* head, int64_t row_stride,
                             int first, int length, int depth, bool packed) {
  constexpr int kChunks = kDepth / 8;
  constexpr int kRowsAtOnce = kThreads / kChunks;
  static_assert(kRows % kRowsAtOnce == 0 && kRowsAtOnce % 8 == 0);
  // A thread copies the same chunk of several rows, which all have the same permutation.
  const int row = ThreadId() / kChunks;
  const int chunk = ThreadId() % kChunks;
  T* to = tile + Swizzled<kDepth>(row, chunk);
  const T* from = head + (first + row) * row_stride + chunk * 8;
  const int rows = chunk * 8 < depth ? length - first - row : 0;
  if (packed) {
    STOWAGE_UNROLL
    for (int i = 0; i < kRows; i += kRowsAtOnce) {
      const bool valid = i < rows;
      CopyAsyncZero16(to + i * kDepth, valid ? from : head, valid);
      from += kRowsAtOnce * row_stride;
    }
    return;
  }
  for (int i = 0; i < kRows; i += kRowsAtOnce) {
    Pack<T> pack;
    for (int e = 0; e < 8; ++e) {
      pack.value[e] = i < rows && chunk * 8 + e < depth ? from[e] : T{};
    }
    StorePack(to + i * kDepth, pack);
    from += kRowsAtOnce * row_stride;
  }
}

/// The strips of a warp that are computed, which are a range of its kM strips.
struct Strips {
  int begin, end;
  STOWAGE_DEVICE bool Has(int i) const { return i >= begin && i < end; }
};

/// Returns the row of the tile at which strip `i` of this warp begins.
template <int kWarps>
STOWAGE_DEVICE int StripRow(int i) {
  return (i * kWarps + Warp()) * 16;
}

/// Computes c (16 kM rows, kColumns) = a b^T for the strips of this warp. `a_tile` and `b_tile` are
/// the offsets of tiles a and b in `shared`, in elements. Tile b has kColumns rows.
///
/// The offset of a chunk is the exclusive or of a number that depends on the row and a number that
/// depends on the chunk. A lane therefore computes the next address with one instruction and
/// without another register.
template <int kWarps, int kDepth, int kM, int kColumns, typename T>
STOWAGE_DEVICE void MultiplyTiles(float (&c)[kM][kColumns / 8][4],
                                  const T* shared, int a_tile, int b_tile,
                                  Strips strips) {
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    STOWAGE_UNROLL
    for (int n = 0; n < kColumns / 8; ++n) {
      STOWAGE_UNROLL
      for (int e = 0; e < 4; ++e) c[i][n][e] = 0;
    }
  }
  const int lane = Lane();
  const int a_at =
      a_tile + Swizzled<kDepth>(StripRow<kWarps>(0) + lane % 16, lane / 16);
  const int b_at =
      b_tile + Swizzled<kDepth>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
  STOWAGE_UNROLL_BY(2)  // full unrolling would need too many registers
  for (int k = 0; k < kDepth / 16; ++k) {
    uint32_t a[kM][4];
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      if (!strips.Has(i)) continue;
      LoadMatrix4(a[i], shared + (a_at ^ k * 16) + i * kWarps * 16 * kDepth);
    }
    STOWAGE_UNROLL
    for (int n = 0; n < kColumns / 16; ++n) {
      uint32_t b[4];
      LoadMatrix4(b, shared + (b_at ^ k * 16) + n * 16 * kDepth);
      STOWAGE_UNROLL
      for (int i = 0; i < kM; ++i) {
        if (!strips.Has(i)) continue;
        MultiplyAdd<T>(c[i][2 * n], a[i], b);
        MultiplyAdd<T>(c[i][2 * n + 1], a[i], b + 2);
      }
    }
  }
}

/// Computes sum (16 kM rows, kDepth) += weights (16 kM rows, kInner) b for the strips of this warp,
/// where b is the tile of kInner rows at offset `tile` of `shared`. The weights are rounded to T.
template <int kDepth, int kM, int kInner, typename T>
STOWAGE_DEVICE void AddWeighted(float (&sum)[kM][kDepth / 8][4],
                                const float (&weights)[kM][kInner / 8][4],
                                const T* shared, int tile, Strips strips) {
  const int lane = Lane();
  const int at = tile + Swizzled<kDepth>(lane % 16, lane / 16);
  STOWAGE_UNROLL
  for (int k = 0; k < kInner / 16; ++k) {
    uint32_t a[kM][4];
    STOWAGE_UNROLL
    for (int i = 0; i < kM; ++i) {
      const auto& left = weights[i][2 * k];
      const auto& right = weights[i][2 * k + 1];
      a[i][0] = PackTwo<T>(left[0], left[1]);
      a[i][1] = PackTwo<T>(left[2], left[3]);
      a[i][2] = PackTwo<T>(right[0], right[1]);
      a[i][3] = PackTwo<T>(right[2], right[3]);
    }
    STOWAGE_UNROLL
    for (int n = 0; n < kDepth / 16; ++n) {
      uint32_t b[4];
      LoadMatrix4Transposed(b, shared + (at ^ n * 16) + k * 16 * kDepth);
      STOWAGE_UNROLL
      for (int i = 0; i < kM; ++i) {
        if (!strips.Has(i)) continue;
        MultiplyAdd<T>(sum[i][2 * n], a[i], b);
        MultiplyAdd<T>(sum[i][2 * n + 1], a[i], b + 2);
      }
    }
  }
}

/// Multiplies the sums of a strip by `factor[0]` in rows of half 0 and by `factor[1]` in rows of
/// half 1, rounds them to T, and writes them to global memory. `sum` has a float[4] for every 8
/// columns. Uses the 16 rows of `tile` from `strip_row` on as scratch, which no other warp may use.
/// `first` is the position of the strip's first row in the sequence, whose length is `length`, and
/// `head` points to row 0.
template <int kDepth, typename T>
STOWAGE_DEVICE void StoreStrip(const float (*sum)[4], const float (&factor)[2],
                               T* tile, int strip_row, T* head,
                               int64_t row_stride, int first, int length,
                               int depth) {
  constexpr int kChunks = kDepth / 8;
  const int lane = NotInAdvance(Lane());
  SyncWarp();  // earlier contents of these rows have been read
  STOWAGE_UNROLL
  for (int n = 0; n < kChunks; ++n) {
    STOWAGE_UNROLL
    for (int half = 0; half < 2; ++half) {
      T* at = tile + Swizzled<kDepth>(strip_row + lane / 4 + half * 8, n) +
              lane % 4 * 2;
      *reinterpret_cast<uint32_t*>(at) = PackTwo<T>(
          sum[n][2 * half] * factor[half], sum[n][2 * half + 1] * factor[half]);
    }
  }
  SyncWarp();
  STOWAGE_UNROLL
  for (int i = 0; i < 16 * kChunks / kWarpSize; ++i) {
    const int row = (i * kWarpSize + lane) / kChunks;
    const int chunk = (i * kWarpSize + lane) % kChunks;
    if (first + row >= length || chunk * 8 >= depth) continue;
    T* to = head + (first + row) * row_stride + chunk * 8;
    const T* from = tile + Swizzled<kDepth>(strip_row + row, chunk);
    if (depth % 8 == 0) {
      StorePack(to, LoadPack(from));
    } else {
      for (int e = 0; e < 8 && chunk * 8 + e < depth; ++e) to[e] = from[e];
    }
  }
}

// --- Between the matmuls: masks, the online softmax, probabilities recomputed from
// log_sum_exp, and the gradient of scores ---

inline constexpr float kLog2E = 1.4426950408889634f;

STOWAGE_DEVICE int TilesOf(int length, int rows) {
  return (length + rows - 1) / rows;
}

/// The tile of queries that block `block` computes. Blocks with lower indices compute later
/// queries, which read more keys under a causal mask.
struct QueryTile {
  int first_query, head, batch;
};
template <int kQueries>
STOWAGE_DEVICE QueryTile QueryTileOf(const AttentionParams& p, int block) {
  const int tiles = TilesOf(p.queries, kQueries);
  return {(tiles - 1 - block % tiles) * kQueries, block / tiles % p.heads,
          block / tiles / p.heads};
}

/// The state of a row in the online softmax: the largest unscaled score so far, which is the same
/// in the four lanes that hold the row, and the sum of this lane's weights.
struct OnlineRow {
  float largest = -INFINITY;
  float total = 0;
};

/// Sets the scores of keys that a query does not read to -inf. Rows are queries, and columns are
/// keys.
template <int n>
STOWAGE_DEVICE void MaskScores(float (&s)[n][4], const AttentionParams& p,
                               int keys, int query, int key) {
  STOWAGE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const AttentionReach reach = KeysOfQuery(p, keys, query + half * 8, key);
    STOWAGE_UNROLL
    for (int i = 0; i < n; ++i) {
      STOWAGE_UNROLL
      for (int e = 0; e < 2; ++e) {
        if (!reach.Has(i * 8 + e)) s[i][2 * half + e] = -INFINITY;
      }
    }
  }
}

/// Replaces the scores of the row of half `half` by weights exp2(scale2 (score - largest)), where
/// `scale2` is the scale divided by log 2. Updates `row`. Returns the factor by which earlier
/// weights and their sums must be multiplied. kMasked must be true if all scores of the row can be
/// -inf so far. All its weights are then 0.
template <bool kMasked, int n>
STOWAGE_DEVICE float TakeScores(float (&s)[n][4], int half, float scale2,
                                OnlineRow& row) {
  float top = row.largest;
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    top = fmaxf(top, fmaxf(s[i][2 * half], s[i][2 * half + 1]));
  }
  top = fmaxf(top, ShuffleXor(top, 1));
  top = fmaxf(top, ShuffleXor(top, 2));
  const float base = kMasked && top == -INFINITY ? 0 : top;
  const float correction = Exp2((row.largest - base) * scale2);
  row.largest = top;
  const float shift = base * scale2;
  float sum = row.total * correction;
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    STOWAGE_UNROLL
    for (int e = 2 * half; e < 2 * half + 2; ++e) {
      s[i][e] = Exp2(s[i][e] * scale2 - shift);
      sum += s[i][e];
    }
  }
  row.total = sum;
  return correction;
}

/// Multiplies the sums of the row of half `half` by `factor`.
template <int n>
STOWAGE_DEVICE void ScaleRows(float (&sum)[n][4], int half, float factor) {
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    sum[i][2 * half] *= factor;
    sum[i][2 * half + 1] *= factor;
  }
}

/// Returns the factor by which the sums of a row must be multiplied at the end. Stores the row's
/// log-sum-exp in log_sum_exp[query] if `query` is in the sequence. All four lanes that hold the
/// row must call this.
STOWAGE_DEVICE float FinishRow(const OnlineRow& row, const AttentionParams& p,
                               float* log_sum_exp, int query) {
  float total = row.total;
  total += ShuffleXor(total, 1);
  total += ShuffleXor(total, 2);
  if (Lane() % 4 == 0 && query < p.queries) {
    log_sum_exp[query] = row.largest * p.scale + logf(total);
  }
  return total == 0 ? 0 : 1 / total;
}

/// The statistics from which the probabilities of a query and their gradients are computed: its
/// log-sum-exp divided by log 2, and o . d_o. For queries beyond the sequence, LoadStatistics
/// returns statistics for which all probabilities are 0.
struct QueryStatistics {
  float log2_sum;
  float delta;
};

STOWAGE_DEVICE QueryStatistics LoadStatistics(const AttentionParams& p,
                                              int batch, int head, int query) {
  if (query >= p.queries) return {INFINITY, 0};
  const int64_t at = StatisticsOf(p, batch, head) + query;
  return {p.log_sum_exp[at] * kLog2E, p.delta[at]};
}

/// Replaces scores by probabilities, if rows are queries. `statistics` has the statistics of the
/// rows of half 0 and half 1.
template <bool kMasked, int n>
STOWAGE_DEVICE void ToProbabilities(float (&s)[n][4],
                                    const QueryStatistics (&statistics)[2],
                                    const AttentionParams& p, int keys,
                                    int query, int key) {
  const float scale2 = p.scale * kLog2E;
  STOWAGE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const AttentionReach reach = KeysOfQuery(p, keys, query + half * 8, key);
    STOWAGE_UNROLL
    for (int i = 0; i < n; ++i) {
      STOWAGE_UNROLL
      for (int e = 0; e < 2; ++e) {
        float& x = s[i][2 * half + e];
        const float power = x * scale2 - statistics[half].log2_sum;
        x = kMasked && !reach.Has(i * 8 + e) ? 0 : Exp2(power);
      }
    }
  }
}

/// Replaces scores by probabilities, if rows are keys. `statistics` begins with the query of this
/// lane's first column, which is `query`.
template <bool kMasked, int n>
STOWAGE_DEVICE void ToProbabilitiesOfKeys(float (&s)[n][4],
                                          const QueryStatistics* statistics,
                                          const AttentionParams& p, int keys,
                                          int key, int query) {
  const float scale2 = p.scale * kLog2E;
  STOWAGE_UNROLL
  for (int half = 0; half < 2; ++half) {
    const AttentionReach reach = QueriesOfKey(p, keys, key + half * 8);
    STOWAGE_UNROLL
    for (int i = 0; i < n; ++i) {
      STOWAGE_UNROLL
      for (int e = 0; e < 2; ++e) {
        float& x = s[i][2 * half + e];
        const float power = x * scale2 - statistics[i * 8 + e].log2_sum;
        x = kMasked && !reach.Has(query + i * 8 + e) ? 0 : Exp2(power);
      }
    }
  }
}

/// Replace `ds`, the gradient of the probabilities `p`, by the gradient of the scores. In
/// ToScoreGrads, rows are queries. In ToScoreGradsOfKeys, rows are keys. `statistics` is as in
/// ToProbabilities and ToProbabilitiesOfKeys.
template <int n>
STOWAGE_DEVICE void ToScoreGrads(float (&ds)[n][4], const float (&p)[n][4],
                                 const QueryStatistics (&statistics)[2]) {
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    STOWAGE_UNROLL
    for (int e = 0; e < 4; ++e) {
      ds[i][e] = p[i][e] * (ds[i][e] - statistics[e / 2].delta);
    }
  }
}
template <int n>
STOWAGE_DEVICE void ToScoreGradsOfKeys(float (&ds)[n][4],
                                       const float (&p)[n][4],
                                       const QueryStatistics* statistics) {
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    STOWAGE_UNROLL
    for (int e = 0; e < 4; ++e) {
      ds[i][e] = p[i][e] * (ds[i][e] - statistics[i * 8 + e % 2].delta);
    }
  }
}

template <int n>
STOWAGE_DEVICE void SetZero(float (&sum)[n][4]) {
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    STOWAGE_UNROLL
    for (int e = 0; e < 4; ++e) sum[i][e] = 0;
  }
}

/// OnTypeAndDepth calls `f(T(), depth)`, where T is the element type and `depth` is a DepthConstant
/// with the number of elements to which rows are padded.
template <int kDepth>
struct DepthConstant {
  static constexpr int value = kDepth;
};
template <typename F>
void OnTypeAndDepth(DType dtype, int depth, F&& f) {
  STOWAGE_CHECK(depth <= kTensorDepth);
  const auto with = [&](auto zero) {
    if (depth <= 32) return f(zero, DepthConstant<32>());
    if (depth <= 64) return f(zero, DepthConstant<64>());
    return f(zero, DepthConstant<128>());
  };
  if (dtype == DType::kBF16) return with(BF16{});
  STOWAGE_CHECK(dtype == DType::kF16);
  with(F16{});
}

// --- dk and dv: strips are rows of a block's tile of keys. Their sums stay in registers during the
// loop over tiles of queries. Scores and their gradients are computed transposed (a row is a key).
// They are then left operands of the matmuls that compute dv and dk, and stay in registers. ---

/// Adds the contribution of one tile of queries to dk and dv of this block's keys. kMasked must be
/// true if some queries do not read some keys. dk is not multiplied by the scale. The parameters
/// whose names end in _tile are the offsets of tiles in `shared`, in elements. `statistics` begins
/// with the first query of the tile.
///
/// Calls `use(ds, strips)` with the gradients of the scores, float[kM][kQueries / 8][4], before
/// their contribution is added to dk. They are valid only in `strips`. Does not call `use` if no
/// query reads a strip of this warp.
template <int kWarps, bool kMasked, int kDepth, int kQueries, int kM,
          typename T, typename Use>
STOWAGE_DEVICE void AddQueries(float (&dk)[kM][kDepth / 8][4],
                               float (&dv)[kM][kDepth / 8][4], const T* shared,
                               int k_tile, int v_tile, int q_tile, int d_o_tile,
                               const QueryStatistics* statistics, int first_key,
                               int first_query, int keys,
                               const AttentionParams& params, Use&& use) {
  Strips strips{0, kM};
  if (kMasked) {  // excludes strips of keys after all of these queries
    STOWAGE_UNROLL
    for (int i = kM - 1; i >= 0; --i) {
      if (first_key + StripRow<kWarps>(i) >
          first_query + kQueries - 1 + params.high) {
        strips.end = i;
      }
    }
    if (strips.end == 0) return;
  }
  float p[kM][kQueries / 8][4];  // transposed, rows are keys
  MultiplyTiles<kWarps, kDepth, kM, kQueries>(p, shared, k_tile, q_tile,
                                              strips);
  const int column = Lane() % 4 * 2;
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    if (!strips.Has(i)) continue;
    ToProbabilitiesOfKeys<kMasked>(p[i], statistics + column, params, keys,
                                   first_key + StripRow<kWarps>(i) + Lane() / 4,
                                   first_query + column);
  }
  AddWeighted<kDepth, kM, kQueries>(dv, p, shared, d_o_tile, strips);
  float ds[kM][kQueries / 8][4];
  MultiplyTiles<kWarps, kDepth, kM, kQueries>(ds, shared, v_tile, d_o_tile,
                                              strips);
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    ToScoreGradsOfKeys(ds[i], p[i], statistics + column);
  }
  use(ds, strips);
  AddWeighted<kDepth, kM, kQueries>(dk, ds, shared, q_tile, strips);
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ATTENTION_TILES_H_
