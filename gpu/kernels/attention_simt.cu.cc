// Attention without tensor cores, in f32 throughout: for f32 operands, for rows longer than
// the tiles of attention_tensor.cu.cc, and with a bias, whose gradient has its own kernel. The
// same three kernels, on square tiles of queries and keys in shared memory as floats.
//
// Threads have 8 by 16 parts of scores (kRows, kRows): thread i has rows i / 16, i / 16 + 8,
// ... and columns i % 16, i % 16 + 16, ... Of sums (kRows, kDepth) they have 4 adjacent
// columns.

#include <cmath>
#include <cstdint>

#include "base/result.h"
#include "gpu/kernels/attention_params.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/queue.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 128;
// The least resident blocks per multiprocessor: fewer than the compiler's default, which
// leaves too few registers.
[[maybe_unused]] constexpr int kBlocks = 4;
[[maybe_unused]] constexpr int kGradBlocks = 3;

template <int kDepth>
struct Tiles {
  static constexpr int kRows = kDepth == 256 ? 16 : 32;  // of queries or keys
  static constexpr int kPitch = kDepth + 4;  // so 8 rows lie in different banks
  static constexpr int kElements = kRows * kPitch;
  static constexpr int kWeightPitch = kRows + 1;
  static constexpr int kWeights = kRows * kWeightPitch;
  // A thread's part of scores.
  static constexpr int kScoreRows = kRows / 8;
  static constexpr int kScoreColumns = kRows / 16;
  // A thread's part of sums.
  static constexpr int kAcross = kDepth / 4 < 32 ? kDepth / 4 : 32;
  static constexpr int kDown = kThreads / kAcross;
  static constexpr int kSumRows = kRows / kDown;
  static constexpr int kSumGroups = kDepth / 4 / kAcross;
};

// A thread's rows and columns.
template <int kDepth>
STOWAGE_DEVICE int ScoreRow(int i) {
  return ThreadId() / 16 + 8 * i;
}
template <int kDepth>
STOWAGE_DEVICE int ScoreColumn(int j) {
  return ThreadId() % 16 + 16 * j;
}
template <int kDepth>
STOWAGE_DEVICE int SumRow(int i) {
  return ThreadId() / Tiles<kDepth>::kAcross + Tiles<kDepth>::kDown * i;
}
template <int kDepth>
STOWAGE_DEVICE int SumColumn(int group) {
  constexpr int kAcross = Tiles<kDepth>::kAcross;
  return 4 * (ThreadId() % kAcross + kAcross * group);
}

template <int kDepth>
struct Scores {
  float at[Tiles<kDepth>::kScoreRows][Tiles<kDepth>::kScoreColumns];
};
template <int kDepth>
struct Sums {
  float at[Tiles<kDepth>::kSumRows][Tiles<kDepth>::kSumGroups][4];
};

template <int kDepth>
STOWAGE_DEVICE void Clear(Sums<kDepth>& sums) {
  STOWAGE_UNROLL
  for (int i = 0; i < Tiles<kDepth>::kSumRows; ++i) {
    STOWAGE_UNROLL
    for (int g = 0; g < Tiles<kDepth>::kSumGroups; ++g) {
      STOWAGE_UNROLL
      for (int e = 0; e < 4; ++e) sums.at[i][g][e] = 0;
    }
  }
}

// Rows [first, first + kRows) of a head with `length` of them, zeros where there
// is nothing.
template <int kDepth, typename T>
STOWAGE_DEVICE void LoadRows(float* tile, const T* head, int64_t row_stride,
                             int first, int length, const AttentionParams& p) {
  constexpr int kChunk = kPackSize<T>;
  constexpr int kChunks = kDepth / kChunk;
  for (int i = ThreadId(); i < Tiles<kDepth>::kRows * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int column = i % kChunks * kChunk;
    const T* from = head + (first + row) * row_stride + column;
    float* to = tile + row * Tiles<kDepth>::kPitch + column;
    const int columns = first + row < length ? p.depth - column : 0;
    if (p.packed && columns > 0) {
      const Pack<T> pack = LoadPack(from);
      STOWAGE_UNROLL
      for (int e = 0; e < kChunk; ++e) to[e] = ToFloat(pack.value[e]);
    } else {
      for (int e = 0; e < kChunk; ++e) {
        to[e] = e < columns ? ToFloat(from[e]) : 0;
      }
    }
  }
}

// a b^T of two tiles, by kTurns columns of 4 at a time: as many as the kernel has
// registers for, on every architecture.
template <int kDepth, int kTurns>
STOWAGE_DEVICE Scores<kDepth> MultiplyRows(const float* a, const float* b) {
  using Its = Tiles<kDepth>;
  Scores<kDepth> s;
  STOWAGE_UNROLL
  for (int i = 0; i < Its::kScoreRows; ++i) {
    STOWAGE_UNROLL
    for (int j = 0; j < Its::kScoreColumns; ++j) s.at[i][j] = 0;
  }
  STOWAGE_UNROLL_BY(kTurns)
  for (int d = 0; d < kDepth; d += 4) {
    Pack<float> x[Its::kScoreRows], y[Its::kScoreColumns];
    STOWAGE_UNROLL
    for (int i = 0; i < Its::kScoreRows; ++i) {
      x[i] = LoadPack(a + ScoreRow<kDepth>(i) * Its::kPitch + d);
    }
    STOWAGE_UNROLL
    for (int j = 0; j < Its::kScoreColumns; ++j) {
      y[j] = LoadPack(b + ScoreColumn<kDepth>(j) * Its::kPitch + d);
    }
    STOWAGE_UNROLL
    for (int i = 0; i < Its::kScoreRows; ++i) {
      STOWAGE_UNROLL
      for (int j = 0; j < Its::kScoreColumns; ++j) {
        STOWAGE_UNROLL
        for (int e = 0; e < 4; ++e) {
          s.at[i][j] += x[i].value[e] * y[j].value[e];
        }
      }
    }
  }
  return s;
}

// sums += w x, where element (row, inner) of w is weights[row * row_pitch +
// inner * inner_pitch] and x is a tile.
template <int kDepth>
STOWAGE_DEVICE void AddWeighted(Sums<kDepth>& sums, const float* weights,
                                int row_pitch, int inner_pitch,
                                const float* tile) {
  using Its = Tiles<kDepth>;
  STOWAGE_UNROLL_BY(4)
  for (int inner = 0; inner < Its::kRows; ++inner) {
    float w[Its::kSumRows];
    STOWAGE_UNROLL
    for (int i = 0; i < Its::kSumRows; ++i) {
      w[i] = weights[SumRow<kDepth>(i) * row_pitch + inner * inner_pitch];
    }
    STOWAGE_UNROLL
    for (int g = 0; g < Its::kSumGroups; ++g) {
      const Pack<float> x =
          LoadPack(tile + inner * Its::kPitch + SumColumn<kDepth>(g));
      STOWAGE_UNROLL
      for (int i = 0; i < Its::kSumRows; ++i) {
        STOWAGE_UNROLL
        for (int e = 0; e < 4; ++e) sums.at[i][g][e] += w[i] * x.value[e];
      }
    }
  }
}

// Writes the thread's part of rows [first, first + kRows) of `length`, row i times
// factors[i], or all of them times `factor` where factors is null.
template <int kDepth, typename T>
STOWAGE_DEVICE void StoreRows(const Sums<kDepth>& sums, const float* factors,
                              float factor, T* head, int64_t row_stride,
                              int first, int length, const AttentionParams& p) {
  using Its = Tiles<kDepth>;
  STOWAGE_UNROLL
  for (int i = 0; i < Its::kSumRows; ++i) {
    const int row = SumRow<kDepth>(i);
    if (first + row >= length) continue;
    const float times = factors == nullptr ? factor : factors[row];
    T* to = head + (first + row) * row_stride;
    STOWAGE_UNROLL
    for (int g = 0; g < Its::kSumGroups; ++g) {
      STOWAGE_UNROLL
      for (int e = 0; e < 4; ++e) {
        const int column = SumColumn<kDepth>(g) + e;
        if (column < p.depth) {
          to[column] = FromFloat<T>(sums.at[i][g][e] * times);
        }
      }
    }
  }
}

// The largest, and the sum, over the 16 threads that share rows of scores.
STOWAGE_DEVICE float RowMax(float v) {
  STOWAGE_UNROLL
  for (int mask = 8; mask > 0; mask /= 2) v = fmaxf(v, ShuffleXor(v, mask));
  return v;
}
STOWAGE_DEVICE float RowSum(float v) {
  STOWAGE_UNROLL
  for (int mask = 8; mask > 0; mask /= 2) v += ShuffleXor(v, mask);
  return v;
}

STOWAGE_DEVICE int TilesOf(int length, int rows) {
  return (length + rows - 1) / rows;
}

// The begin and the end of a position's segment in a batch entry. Precondition: there are
// segments.
STOWAGE_DEVICE int SegmentBegin(const SimtAttentionParams& p, int batch,
                                int at) {
  return p.segments[2 * static_cast<int64_t>(batch) * p.queries + at];
}
STOWAGE_DEVICE int SegmentEnd(const SimtAttentionParams& p, int batch, int at) {
  return p.segments[(2 * static_cast<int64_t>(batch) + 1) * p.queries + at];
}

// Reports a fault for positions [first, first + rows) whose segments are not adjacent.
STOWAGE_DEVICE void CheckSegments(const SimtAttentionParams& p, int batch,
                                  int first, int rows) {
  const int at = first + ThreadId();
  if (p.segments == nullptr || ThreadId() >= rows || at >= p.queries) return;
  const int begin = SegmentBegin(p, batch, at), end = SegmentEnd(p, batch, at);
  bool good = begin >= 0 && begin <= at && at < end && end <= p.queries;
  if (at > 0) {
    const int last_end = SegmentEnd(p, batch, at - 1);
    good = good && (begin == at ? last_end == at
                                : last_end == end &&
                                      SegmentBegin(p, batch, at - 1) == begin);
  }
  if (!good) ReportFault(p.fault);
}

// The part of a range in the segments of positions [first, first + rows), from the start of a
// tile of as many positions.
STOWAGE_DEVICE AttentionRange Within(const SimtAttentionParams& p, int batch,
                                     AttentionRange range, int first,
                                     int rows) {
  if (p.segments == nullptr || range.begin >= range.end) return range;
  const int last = (first + rows < p.queries ? first + rows : p.queries) - 1;
  const int begin = SegmentBegin(p, batch, first) / rows * rows;
  const int end = SegmentEnd(p, batch, last);
  return {begin > range.begin ? begin : range.begin,
          end < range.end ? end : range.end};
}

// KeysOfQuery, of its segment.
STOWAGE_DEVICE AttentionReach ReachOf(const SimtAttentionParams& p, int batch,
                                      int keys, int query, int key) {
  AttentionReach reach = KeysOfQuery(p, keys, query, key);
  if (p.segments == nullptr || query >= p.queries) return reach;
  const int first = SegmentBegin(p, batch, query) - key;
  const int last = SegmentEnd(p, batch, query) - 1 - key;
  if (first > reach.first) reach.first = first;
  if (last < reach.last) reach.last = last;
  return reach;
}

// The bias of a query and of keys from `key` on; beyond the sequence that of the last query.
// Null without a bias.
template <typename T>
STOWAGE_DEVICE const T* BiasAt(const AttentionParams& p, int batch, int head,
                               int query, int key) {
  const int64_t row = query < p.queries ? query : p.queries - 1;
  return HeadOf<T>(p.bias, batch, head) + row * p.bias.row +
         (p.bias.data == nullptr ? 0 : key);
}

template <typename T, int kDepth, bool kBias>
STOWAGE_KERNEL(kThreads, kBlocks)
SimtAttentionForward(STOWAGE_PARAMS(SimtAttentionParams) p) {
  using Its = Tiles<kDepth>;
  constexpr int kRows = Its::kRows;
  float* q_tile = DynamicShared<float>();
  float* k_tile = q_tile + Its::kElements;
  float* v_tile = k_tile + Its::kElements;
  STOWAGE_SHARED(float, weights, Its::kWeights);
  STOWAGE_SHARED(float, factors, kRows);

  // The tiles with most keys come first.
  const int tiles = TilesOf(p.queries, kRows);
  const int tile = tiles - 1 - BlockId() % tiles;
  const int first_query = tile * kRows;
  const int head = BlockId() / tiles % p.heads;
  const int batch = BlockId() / tiles / p.heads;
  const int key_head = head / (p.heads / p.key_heads);
  const T* k = HeadOf<T>(p.k, batch, key_head);
  const T* v = HeadOf<T>(p.v, batch, key_head);
  LoadRows<kDepth>(q_tile, HeadOf<T>(p.q, batch, head), p.q.row, first_query,
                   p.queries, p);
  CheckSegments(p, batch, first_query, kRows);
  const AttentionRange read =
      Within(p, batch, KeysRead(p, KeysOf(p, batch), first_query, kRows, kRows),
             first_query, kRows);
  Sums<kDepth> o;
  Clear(o);
  float largest[Its::kScoreRows], total[Its::kScoreRows];
  STOWAGE_UNROLL
  for (int i = 0; i < Its::kScoreRows; ++i) {
    largest[i] = -INFINITY;
    total[i] = 0;
  }
  for (int first_key = read.begin; first_key < read.end; first_key += kRows) {
    SyncThreads();  // the tiles before have been used
    LoadRows<kDepth>(k_tile, k, p.k.row, first_key, read.end, p);
    LoadRows<kDepth>(v_tile, v, p.v.row, first_key, read.end, p);
    SyncThreads();
    Scores<kDepth> s = MultiplyRows<kDepth, 1>(q_tile, k_tile);
    STOWAGE_UNROLL
    for (int i = 0; i < Its::kScoreRows; ++i) {
      const int row = ScoreRow<kDepth>(i);
      const AttentionReach reach =
          ReachOf(p, batch, read.end, first_query + row,
                  first_key + ScoreColumn<kDepth>(0));
      const T* bias = nullptr;
      if constexpr (kBias) {
        bias = BiasAt<T>(p, batch, head, first_query + row,
                         first_key + ScoreColumn<kDepth>(0));
      }
      float top = largest[i];
      STOWAGE_UNROLL
      for (int j = 0; j < Its::kScoreColumns; ++j) {
        const bool seen = reach.Has(16 * j);
        s.at[i][j] = seen ? s.at[i][j] * p.scale : -INFINITY;
        if constexpr (kBias) {
          if (seen && p.bias.data != nullptr) {
            s.at[i][j] += ToFloat(bias[16 * j]);
          }
        }
        top = fmaxf(top, s.at[i][j]);
      }
      top = RowMax(top);
      // If a row has read no key so far, everything is 0.
      const float shift = top == -INFINITY ? 0 : top;
      const float correction = math::Exp(largest[i] - shift);
      largest[i] = top;
      float sum = 0;
      STOWAGE_UNROLL
      for (int j = 0; j < Its::kScoreColumns; ++j) {
        const float weight = math::Exp(s.at[i][j] - shift);
        sum += weight;
        weights[row * Its::kWeightPitch + ScoreColumn<kDepth>(j)] = weight;
      }
      total[i] = total[i] * correction + RowSum(sum);
      if (ThreadId() % 16 == 0) factors[row] = correction;
    }
    SyncThreads();
    STOWAGE_UNROLL
    for (int i = 0; i < Its::kSumRows; ++i) {
      const float correction = factors[SumRow<kDepth>(i)];
      STOWAGE_UNROLL
      for (int g = 0; g < Its::kSumGroups; ++g) {
        STOWAGE_UNROLL
        for (int e = 0; e < 4; ++e) o.at[i][g][e] *= correction;
      }
    }
    AddWeighted<kDepth>(o, &weights[0], Its::kWeightPitch, 1, v_tile);
  }
  SyncThreads();
  float* log_sum_exp = p.log_sum_exp + StatisticsOf(p, batch, head);
  if (ThreadId() % 16 == 0) {
    STOWAGE_UNROLL
    for (int i = 0; i < Its::kScoreRows; ++i) {
      const int row = ScoreRow<kDepth>(i);
      factors[row] = total[i] == 0 ? 0 : 1 / total[i];
      if (first_query + row < p.queries) {
        log_sum_exp[first_query + row] = largest[i] + logf(total[i]);
      }
    }
  }
  SyncThreads();
  StoreRows<kDepth>(o, &factors[0], 1, HeadOf<T>(p, 0, batch, head, p.queries),
                    p.out_row[0], first_query, p.queries, p);
}

// The log-sum-exp and o . d_o of a query; beyond the sequence, or if the bias is -inf for all
// keys, values that make its probabilities 0.
template <bool kBias>
STOWAGE_DEVICE void LoadStatistics(float* log_sum_exp, float* delta,
                                   const AttentionParams& p, int batch,
                                   int head, int query) {
  const int64_t at = StatisticsOf(p, batch, head) + query;
  const bool exists = query < p.queries;
  *log_sum_exp = exists ? p.log_sum_exp[at] : INFINITY;
  if (kBias && *log_sum_exp == -INFINITY) *log_sum_exp = INFINITY;
  *delta = exists ? p.delta[at] : 0;
}

// The probabilities of a tile of queries (rows) and keys (columns), and the gradients of the
// scores after scaling.
template <typename T, int kDepth, bool kBias>
STOWAGE_DEVICE void Probabilities(const float* q_tile, const float* k_tile,
                                  const float* v_tile, const float* d_o_tile,
                                  const float* log_sum_exp, const float* delta,
                                  int batch, int head, int first_query,
                                  int first_key, int keys,
                                  const SimtAttentionParams& p, float* weights,
                                  float* d_scores) {
  using Its = Tiles<kDepth>;
  const Scores<kDepth> s = MultiplyRows<kDepth, 2>(q_tile, k_tile);
  const Scores<kDepth> d_weights = MultiplyRows<kDepth, 2>(d_o_tile, v_tile);
  STOWAGE_UNROLL
  for (int i = 0; i < Its::kScoreRows; ++i) {
    const int row = ScoreRow<kDepth>(i);
    const AttentionReach reach = ReachOf(p, batch, keys, first_query + row,
                                         first_key + ScoreColumn<kDepth>(0));
    const T* bias = nullptr;
    if constexpr (kBias) {
      bias = BiasAt<T>(p, batch, head, first_query + row,
                       first_key + ScoreColumn<kDepth>(0));
    }
    STOWAGE_UNROLL
    for (int j = 0; j < Its::kScoreColumns; ++j) {
      const int column = ScoreColumn<kDepth>(j);
      const bool seen = reach.Has(16 * j);
      float score = s.at[i][j] * p.scale;
      if constexpr (kBias) {
        if (seen && p.bias.data != nullptr) score += ToFloat(bias[16 * j]);
      }
      const float weight = seen ? math::Exp(score - log_sum_exp[row]) : 0;
      const int at = row * Its::kWeightPitch + column;
      weights[at] = weight;
      d_scores[at] = weight * (d_weights.at[i][j] - delta[row]);
    }
  }
}

template <typename T, int kDepth, bool kBias>
STOWAGE_KERNEL(kThreads, kGradBlocks)
SimtAttentionGradKeys(STOWAGE_PARAMS(SimtAttentionParams) p) {
  using Its = Tiles<kDepth>;
  constexpr int kRows = Its::kRows;
  float* k_tile = DynamicShared<float>();
  float* v_tile = k_tile + Its::kElements;
  float* q_tile = v_tile + Its::kElements;
  float* d_o_tile = q_tile + Its::kElements;
  STOWAGE_SHARED(float, weights, Its::kWeights);
  STOWAGE_SHARED(float, d_scores, Its::kWeights);
  STOWAGE_SHARED(float, log_sum_exp, kRows);
  STOWAGE_SHARED(float, delta, kRows);

  const int tiles = TilesOf(p.keys, kRows);
  const int first_key = BlockId() % tiles * kRows;
  const int key_head = BlockId() / tiles % p.key_heads;
  const int batch = BlockId() / tiles / p.key_heads;
  const int group = p.heads / p.key_heads;
  const int keys = KeysOf(p, batch);
  const AttentionRange readers = Within(
      p, batch, Readers(p, keys, first_key, kRows, kRows), first_key, kRows);
  LoadRows<kDepth>(k_tile, HeadOf<T>(p.k, batch, key_head), p.k.row, first_key,
                   keys, p);
  LoadRows<kDepth>(v_tile, HeadOf<T>(p.v, batch, key_head), p.v.row, first_key,
                   keys, p);
  Sums<kDepth> dk, dv;
  Clear(dk);
  Clear(dv);
  for (int i = 0; i < group; ++i) {
    const int head = key_head * group + i;
    for (int first_query = readers.begin; first_query < readers.end;
         first_query += kRows) {
      SyncThreads();  // what is shared has been used
      LoadRows<kDepth>(q_tile, HeadOf<T>(p.q, batch, head), p.q.row,
                       first_query, p.queries, p);
      LoadRows<kDepth>(d_o_tile, HeadOf<T>(p.d_o, batch, head), p.d_o.row,
                       first_query, p.queries, p);
      if (ThreadId() < kRows) {
        LoadStatistics<kBias>(&log_sum_exp[ThreadId()], &delta[ThreadId()], p,
                              batch, head, first_query + ThreadId());
      }
      SyncThreads();
      Probabilities<T, kDepth, kBias>(
          q_tile, k_tile, v_tile, d_o_tile, &log_sum_exp[0], &delta[0], batch,
          head, first_query, first_key, keys, p, &weights[0], &d_scores[0]);
      SyncThreads();
      AddWeighted<kDepth>(dv, &weights[0], 1, Its::kWeightPitch, d_o_tile);
      AddWeighted<kDepth>(dk, &d_scores[0], 1, Its::kWeightPitch, q_tile);
    }
  }
  StoreRows<kDepth>(dk, nullptr, p.scale,
                    HeadOf<T>(p, 1, batch, key_head, p.keys), p.out_row[1],
                    first_key, p.keys, p);
  StoreRows<kDepth>(dv, nullptr, 1, HeadOf<T>(p, 2, batch, key_head, p.keys),
                    p.out_row[2], first_key, p.keys, p);
}

template <typename T, int kDepth, bool kBias>
STOWAGE_KERNEL(kThreads, kGradBlocks)
SimtAttentionGradQueries(STOWAGE_PARAMS(SimtAttentionParams) p) {
  using Its = Tiles<kDepth>;
  constexpr int kRows = Its::kRows;
  float* q_tile = DynamicShared<float>();
  float* d_o_tile = q_tile + Its::kElements;
  float* k_tile = d_o_tile + Its::kElements;
  float* v_tile = k_tile + Its::kElements;
  STOWAGE_SHARED(float, weights, Its::kWeights);
  STOWAGE_SHARED(float, d_scores, Its::kWeights);
  STOWAGE_SHARED(float, log_sum_exp, kRows);
  STOWAGE_SHARED(float, delta, kRows);

  const int tiles = TilesOf(p.queries, kRows);
  const int first_query = (tiles - 1 - BlockId() % tiles) * kRows;
  const int head = BlockId() / tiles % p.heads;
  const int batch = BlockId() / tiles / p.heads;
  const int key_head = head / (p.heads / p.key_heads);
  LoadRows<kDepth>(q_tile, HeadOf<T>(p.q, batch, head), p.q.row, first_query,
                   p.queries, p);
  LoadRows<kDepth>(d_o_tile, HeadOf<T>(p.d_o, batch, head), p.d_o.row,
                   first_query, p.queries, p);
  if (ThreadId() < kRows) {
    LoadStatistics<kBias>(&log_sum_exp[ThreadId()], &delta[ThreadId()], p,
                          batch, head, first_query + ThreadId());
  }
  const AttentionRange read =
      Within(p, batch, KeysRead(p, KeysOf(p, batch), first_query, kRows, kRows),
             first_query, kRows);
  Sums<kDepth> dq;
  Clear(dq);
  for (int first_key = read.begin; first_key < read.end; first_key += kRows) {
    SyncThreads();  // the tiles before have been used
    LoadRows<kDepth>(k_tile, HeadOf<T>(p.k, batch, key_head), p.k.row,
                     first_key, read.end, p);
    LoadRows<kDepth>(v_tile, HeadOf<T>(p.v, batch, key_head), p.v.row,
                     first_key, read.end, p);
    SyncThreads();
    Probabilities<T, kDepth, kBias>(
        q_tile, k_tile, v_tile, d_o_tile, &log_sum_exp[0], &delta[0], batch,
        head, first_query, first_key, read.end, p, &weights[0], &d_scores[0]);
    SyncThreads();
    AddWeighted<kDepth>(dq, &d_scores[0], Its::kWeightPitch, 1, k_tile);
  }
  StoreRows<kDepth>(dq, nullptr, p.scale,
                    HeadOf<T>(p, 0, batch, head, p.queries), p.out_row[0],
                    first_query, p.queries, p);
}

// One tile of the gradient of the bias: of its rows, or of one that is for all
// queries, and of keys. Summed in one order: batch entries, heads, tiles of queries;
// a row for all queries, at the end, over the rows of a tile.
template <typename T, int kDepth>
STOWAGE_KERNEL(kThreads, kGradBlocks)
SimtAttentionGradBias(STOWAGE_PARAMS(AttentionBiasParams) d_bias) {
  using Its = Tiles<kDepth>;
  constexpr int kRows = Its::kRows;
  const SimtAttentionParams& p = d_bias.attention;
  float* q_tile = DynamicShared<float>();
  float* d_o_tile = q_tile + Its::kElements;
  float* k_tile = d_o_tile + Its::kElements;
  float* v_tile = k_tile + Its::kElements;
  STOWAGE_SHARED(float, weights, Its::kWeights);
  STOWAGE_SHARED(float, d_scores, Its::kWeights);
  STOWAGE_SHARED(float, log_sum_exp, kRows);
  STOWAGE_SHARED(float, delta, kRows);

  const bool one_row = d_bias.row == 0;
  const int key_tiles = TilesOf(p.keys, kRows);
  const int row_tiles = one_row ? 1 : TilesOf(p.queries, kRows);
  const int heads = d_bias.head == 0 ? 1 : p.heads;
  const int first_key = BlockId() % key_tiles * kRows;
  const int first_row = BlockId() / key_tiles % row_tiles * kRows;
  const int d_head = BlockId() / key_tiles / row_tiles % heads;
  const int d_batch = BlockId() / key_tiles / row_tiles / heads;
  const int end_batch = d_bias.batch == 0 ? p.batch : d_batch + 1;
  const int end_head = d_bias.head == 0 ? p.heads : d_head + 1;
  Scores<kDepth> sums;
  STOWAGE_UNROLL
  for (int i = 0; i < Its::kScoreRows; ++i) {
    STOWAGE_UNROLL
    for (int j = 0; j < Its::kScoreColumns; ++j) sums.at[i][j] = 0;
  }
  for (int batch = d_batch; batch < end_batch; ++batch) {
    const int keys = KeysOf(p, batch);
    AttentionRange readers = Within(
        p, batch, Readers(p, keys, first_key, kRows, kRows), first_key, kRows);
    if (!one_row) {
      if (readers.begin < first_row) readers.begin = first_row;
      if (readers.end > first_row + kRows) readers.end = first_row + kRows;
    }
    for (int head = d_head; head < end_head; ++head) {
      const int key_head = head / (p.heads / p.key_heads);
      for (int first_query = readers.begin; first_query < readers.end;
           first_query += kRows) {
        SyncThreads();  // what is shared has been used
        if (first_query == readers.begin) {
          LoadRows<kDepth>(k_tile, HeadOf<T>(p.k, batch, key_head), p.k.row,
                           first_key, keys, p);
          LoadRows<kDepth>(v_tile, HeadOf<T>(p.v, batch, key_head), p.v.row,
                           first_key, keys, p);
        }
        LoadRows<kDepth>(q_tile, HeadOf<T>(p.q, batch, head), p.q.row,
                         first_query, p.queries, p);
        LoadRows<kDepth>(d_o_tile, HeadOf<T>(p.d_o, batch, head), p.d_o.row,
                         first_query, p.queries, p);
        if (ThreadId() < kRows) {
          LoadStatistics<true>(&log_sum_exp[ThreadId()], &delta[ThreadId()], p,
                               batch, head, first_query + ThreadId());
        }
        SyncThreads();
        Probabilities<T, kDepth, true>(
            q_tile, k_tile, v_tile, d_o_tile, &log_sum_exp[0], &delta[0], batch,
            head, first_query, first_key, keys, p, &weights[0], &d_scores[0]);
        STOWAGE_UNROLL
        for (int i = 0; i < Its::kScoreRows; ++i) {
          STOWAGE_UNROLL
          for (int j = 0; j < Its::kScoreColumns; ++j) {  // the thread's own
            sums.at[i][j] += d_scores[ScoreRow<kDepth>(i) * Its::kWeightPitch +
                                      ScoreColumn<kDepth>(j)];
          }
        }
      }
    }
  }
  T* out = static_cast<T*>(p.out[0]) + d_batch * d_bias.batch +
           d_head * d_bias.head + first_key;
  STOWAGE_UNROLL
  for (int i = 0; i < Its::kScoreRows; ++i) {
    const int row = ScoreRow<kDepth>(i);
    STOWAGE_UNROLL
    for (int j = 0; j < Its::kScoreColumns; ++j) {
      const int column = ScoreColumn<kDepth>(j);
      if (one_row) {
        d_scores[row * Its::kWeightPitch + column] = sums.at[i][j];
      } else if (first_row + row < p.queries && first_key + column < p.keys) {
        out[(first_row + row) * d_bias.row + column] =
            FromFloat<T>(sums.at[i][j]);
      }
    }
  }
  if (!one_row) return;
  SyncThreads();
  if (ThreadId() >= kRows || first_key + ThreadId() >= p.keys) return;
  float sum = 0;
  for (int row = 0; row < kRows; ++row) {
    sum += d_scores[row * Its::kWeightPitch + ThreadId()];
  }
  out[ThreadId()] = FromFloat<T>(sum);
}

template <int kDepth>
constexpr uint32_t SharedBytes(int tiles) {
  return static_cast<uint32_t>(tiles * Tiles<kDepth>::kElements *
                               sizeof(float));
}

template <typename T, int kDepth, bool kBias>
void EnqueueForward(const SimtAttentionParams& p, Queue& queue) {
  const uint32_t tiles = BlocksFor(p.queries, Tiles<kDepth>::kRows);
  LaunchKernel(queue, "attention in f32",
               SimtAttentionForward<T, kDepth, kBias>, p,
               {.x = tiles * static_cast<uint32_t>(p.batch * p.heads)},
               kThreads, SharedBytes<kDepth>(3));
}

template <typename T, int kDepth, bool kBias>
void EnqueueGrad(const SimtAttentionParams& p, Queue& queue) {
  const uint32_t key_tiles = BlocksFor(p.keys, Tiles<kDepth>::kRows);
  const uint32_t query_tiles = BlocksFor(p.queries, Tiles<kDepth>::kRows);
  LaunchKernel(queue, "attention grad in f32, keys",
               SimtAttentionGradKeys<T, kDepth, kBias>, p,
               {.x = key_tiles * static_cast<uint32_t>(p.batch * p.key_heads)},
               kThreads, SharedBytes<kDepth>(4));
  LaunchKernel(queue, "attention grad in f32, queries",
               SimtAttentionGradQueries<T, kDepth, kBias>, p,
               {.x = query_tiles * static_cast<uint32_t>(p.batch * p.heads)},
               kThreads, SharedBytes<kDepth>(4));
}

template <typename T, int kDepth>
void EnqueueBiasGrad(const AttentionBiasParams& d_bias, Queue& queue) {
  const SimtAttentionParams& p = d_bias.attention;
  const uint32_t key_tiles = BlocksFor(p.keys, Tiles<kDepth>::kRows);
  const uint32_t row_tiles =
      d_bias.row == 0 ? 1 : BlocksFor(p.queries, Tiles<kDepth>::kRows);
  const int heads = d_bias.head == 0 ? 1 : p.heads;
  const int batch = d_bias.batch == 0 ? 1 : p.batch;
  LaunchKernel(
      queue, "attention bias grad in f32", SimtAttentionGradBias<T, kDepth>,
      d_bias,
      {.x = key_tiles * row_tiles * static_cast<uint32_t>(batch * heads)},
      kThreads, SharedBytes<kDepth>(4));
}

// Whether the kernels with a bias run, whether or not there is one: those without are not
// compiled for short rows of 16-bit elements, which tensor cores compute unless there are
// segments.
bool MayHaveBias(DType dtype, const SimtAttentionParams& p) {
  return p.bias.data != nullptr ||
         (dtype != DType::kF32 && p.depth <= kTensorDepth);
}

// f(T(), depth) with the depth, a constant, that rows are padded to.
template <int kDepth>
struct DepthConstant {
  static constexpr int value = kDepth;
};
template <bool kBias, typename F>
void OnTypeAndDepth(DType dtype, int depth, F&& f) {
  STOWAGE_CHECK(depth <= kSimtDepth);
  const auto with = [&](auto zero) {
    if (depth <= 64) return f(zero, DepthConstant<64>());
    if (depth <= 128) return f(zero, DepthConstant<128>());
    f(zero, DepthConstant<256>());
  };
  if constexpr (kBias) return OnFloat(dtype, with);
  if (depth > kTensorDepth) {
    return OnFloat(dtype, [&](auto zero) { f(zero, DepthConstant<256>()); });
  }
  STOWAGE_CHECK(dtype == DType::kF32);
  with(float{});
}

}  // namespace

void EnqueueSimtAttention(DType dtype, const SimtAttentionParams& p,
                          Queue& queue) {
  if (!MayHaveBias(dtype, p)) {
    return OnTypeAndDepth<false>(dtype, p.depth, [&](auto zero, auto depth) {
      EnqueueForward<decltype(zero), depth.value, false>(p, queue);
    });
  }
  OnTypeAndDepth<true>(dtype, p.depth, [&](auto zero, auto depth) {
    EnqueueForward<decltype(zero), depth.value, true>(p, queue);
  });
}

void EnqueueSimtAttentionGrad(DType dtype, const SimtAttentionParams& p,
                              Queue& queue) {
  if (!MayHaveBias(dtype, p)) {
    return OnTypeAndDepth<false>(dtype, p.depth, [&](auto zero, auto depth) {
      EnqueueGrad<decltype(zero), depth.value, false>(p, queue);
    });
  }
  OnTypeAndDepth<true>(dtype, p.depth, [&](auto zero, auto depth) {
    EnqueueGrad<decltype(zero), depth.value, true>(p, queue);
  });
}

void EnqueueSimtAttentionBiasGrad(DType dtype, const AttentionBiasParams& p,
                                  Queue& queue) {
  OnTypeAndDepth<true>(dtype, p.attention.depth, [&](auto zero, auto depth) {
    EnqueueBiasGrad<decltype(zero), depth.value>(p, queue);
  });
}

}  // namespace stowage::gpu
