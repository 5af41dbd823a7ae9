#ifndef STOWAGE_GPU_KERNELS_ATTENTION_SOFTMAX_H_
#define STOWAGE_GPU_KERNELS_ATTENTION_SOFTMAX_H_

// What the tensor-core kernels of attention do between their products: masks, the online
// softmax, probabilities made again from log_sum_exp, and the gradient of scores.
//
// A strip is 16 rows of a tile, which belong to a warp as mma.m16n8k16 has them: float[4]
// for every 8 columns, of rows lane / 4 and lane / 4 + 8 (below, half 0 and 1), columns
// 2 (lane % 4) and the next. `query` and `key` are those of half 0 and of a lane's first
// column.

#include <cmath>
#include <cstdint>

#include "base/result.h"
#include "gpu/kernels/attention_params.h"
#include "gpu/simt.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

inline constexpr float kLog2E = 1.4426950408889634f;

STOWAGE_DEVICE int TilesOf(int length, int rows) {
  return (length + rows - 1) / rows;
}

/// The queries that a block works on. The tiles with most keys come first.
struct QueryTile {
  int first_query, head, batch;
};
template <int kQueries>
STOWAGE_DEVICE QueryTile QueryTileOf(const AttentionParams& p, int block) {
  const int tiles = TilesOf(p.queries, kQueries);
  return {(tiles - 1 - block % tiles) * kQueries, block / tiles % p.heads,
          block / tiles / p.heads};
}

/// Of a row of scores: the largest of the raw scores so far, the same in the four lanes
/// that share the row, and the sum of this lane's weights.
struct OnlineRow {
  float largest = -INFINITY;
  float total = 0;
};

/// -inf for keys that a query does not read. Columns are keys.
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

/// Turns the scores of one half of the rows into weights, in powers of 2, and returns
/// what the weights before them, and their sums, are to be multiplied by. With kMasked
/// a row may have read no key so far: of such a one, everything is 0.
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

/// Multiplies one half of the rows.
template <int n>
STOWAGE_DEVICE void ScaleRows(float (&sum)[n][4], int half, float factor) {
  STOWAGE_UNROLL
  for (int i = 0; i < n; ++i) {
    sum[i][2 * half] *= factor;
    sum[i][2 * half + 1] *= factor;
  }
}

/// Returns what a row's sums are to be multiplied by in the end, and stores its
/// log-sum-exp, where there is such a query.
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

/// What a probability is computed with: its query's log-sum-exp in powers of 2,
/// and o . d_o. Queries beyond the sequence get what makes everything 0.
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

/// Turns scores into probabilities. Rows are queries, with a half's statistics each.
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

/// The same of scores whose rows are keys; `statistics` are those of the columns, from
/// this lane's first on, which is `query`.
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

/// ds, the gradient of scores, from that of probabilities: in place. As above.
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

/// f(T(), depth) with the depth, a constant, that rows are padded to.
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

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ATTENTION_SOFTMAX_H_
