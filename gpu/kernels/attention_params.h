#ifndef STOWAGE_GPU_KERNELS_ATTENTION_PARAMS_H_
#define STOWAGE_GPU_KERNELS_ATTENTION_PARAMS_H_

// The params of the kernels of attention, and the functions that enqueue them: tensor-core
// kernels for 16-bit operands with up to kTensorDepth elements a row and no bias, others for
// the rest.

#include <cstdint>

#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

/// An operand (B, T, H, D) or (B, S, G, D) whose rows of D are contiguous; strides in elements.
struct AttentionOperand {
  const void* data = nullptr;
  int64_t batch = 0, row = 0, head = 0;
};

struct AttentionParams {
  AttentionOperand q, k, v, o, d_o;
  /// o, or dq, dk and dv: heads are adjacent, in rows of so many elements.
  void* out[3] = {};
  int64_t out_row[3] = {};
  float* log_sum_exp = nullptr;          // (B, H, T); the gradient reads it
  float* delta = nullptr;                // (B, H, T), gradient: o . d_o
  const int32_t* key_lengths = nullptr;  // (B), or null; see KeysOf
  FaultSlot fault;
  int batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, depth = 0;
  /// Query t reads keys from t + low to t + high (ir/attention.h).
  int low = 0, high = 0;
  float scale = 1;
  /// Whether every row of every operand is aligned to 16 bytes: 1 or 0; a bool would leave
  /// padding with stale bytes.
  int packed = 0;
  /// (B, H, T, S), or null: steps are 0 for a single entry, head or row.
  AttentionOperand bias;
};

/// The additional params of kernels without tensor cores.
struct SimtAttentionParams : AttentionParams {
  const int32_t* segments = nullptr;  // (B, 2, T), or null (ir/ops.h)
};

/// The steps of the gradient of the bias, out[0]; 0 along summed axes.
struct AttentionBiasParams {
  SimtAttentionParams attention;
  int64_t batch = 0, row = 0, head = 0;
};

/// Row 0 of a head.
template <typename T>
STOWAGE_DEVICE const T* HeadOf(const AttentionOperand& x, int batch, int head) {
  return static_cast<const T*>(x.data) + batch * x.batch + head * x.head;
}

/// Row 0 of a head of a result whose batch entries have `length` rows.
template <typename T>
STOWAGE_DEVICE T* HeadOf(const AttentionParams& p, int result, int batch,
                         int head, int length) {
  return static_cast<T*>(p.out[result]) +
         static_cast<int64_t>(batch) * length * p.out_row[result] +
         static_cast<int64_t>(head) * p.depth;
}

/// Where the statistics (B, H, T) of a head begin.
STOWAGE_DEVICE int64_t StatisticsOf(const AttentionParams& p, int batch,
                                    int head) {
  return (static_cast<int64_t>(batch) * p.heads + head) * p.queries;
}

/// The number of keys to read. An invalid length is reported as a fault, and no key is read.
STOWAGE_DEVICE int KeysOf(const AttentionParams& p, int batch) {
  if (p.key_lengths == nullptr) return p.keys;
  const int length = p.key_lengths[batch];
  if (length >= 1 && length <= p.keys) return length;
  if (ThreadId() == 0) ReportFault(p.fault);
  return 0;
}

/// Positions [begin, end), where begin is the first position of a tile.
struct AttentionRange {
  int begin, end;
};
/// The keys, of `keys`, that some of the queries [first, first + rows) read, and the queries
/// that read some of the keys [first, first + rows).
STOWAGE_DEVICE AttentionRange KeysRead(const AttentionParams& p, int keys,
                                       int first, int rows, int key_rows) {
  const int last = (first + rows < p.queries ? first + rows : p.queries) - 1;
  const int begin = first + p.low > 0 ? first + p.low : 0;
  const int end = last + p.high + 1;
  return {begin / key_rows * key_rows, end < keys ? end : keys};
}
STOWAGE_DEVICE AttentionRange Readers(const AttentionParams& p, int keys,
                                      int first, int rows, int query_rows) {
  if (first >= keys) return {0, 0};
  const int last = (first + rows < keys ? first + rows : keys) - 1;
  const int begin = first - p.high > 0 ? first - p.high : 0;
  const int end = last - p.low + 1;
  return {begin / query_rows * query_rows, end < p.queries ? end : p.queries};
}

/// Positions [first, last].
struct AttentionReach {
  int first, last;
  STOWAGE_DEVICE bool Has(int i) const { return i >= first && i <= last; }
};
/// The keys that a query reads, of `keys` keys, relative to `key`; the queries that read a key.
STOWAGE_DEVICE AttentionReach KeysOfQuery(const AttentionParams& p, int keys,
                                          int query, int key) {
  const int last = query + p.high;
  return {query + p.low - key, (last < keys ? last : keys - 1) - key};
}
STOWAGE_DEVICE AttentionReach QueriesOfKey(const AttentionParams& p, int keys,
                                           int key) {
  return {key - p.high, key < keys ? key - p.low : -1};
}

/// Whether each existing query of a tile reads each key of a tile.
STOWAGE_DEVICE bool ReadAll(const AttentionParams& p, int keys, int first_query,
                            int query_rows, int first_key, int key_rows) {
  const int last_key = first_key + key_rows - 1;
  const int end_query = first_query + query_rows;
  const int last_query = (end_query < p.queries ? end_query : p.queries) - 1;
  return last_key < keys && last_key <= first_query + p.high &&
         first_key >= last_query + p.low;
}

inline constexpr int64_t kTensorDepth = 128;

/// Computes p.delta, which the kernels of the gradient read.
void EnqueueTensorAttention(DType dtype, const AttentionParams& p,
                            Queue& queue);
void EnqueueTensorAttentionGrad(DType dtype, const AttentionParams& p,
                                Queue& queue);
/// The same by matmuls of warpgroups, for compute capability 9.0 and packed operands.
void EnqueueWarpgroupAttention(DType dtype, const AttentionParams& p,
                               Queue& queue);
void EnqueueWarpgroupAttentionGrad(DType dtype, const AttentionParams& p,
                                   Queue& queue);
/// Whether the gradient can be computed by five matmuls: no query reads a later key, one key
/// head per query head, rows of a multiple of 16 elements of 16 bits, no bias, no key
/// lengths, at most kMaxGridY entries. Addresses do not matter.
bool TakesFiveProducts(DType dtype, const AttentionParams& p);
/// That gradient in one pass, with a block for each head of an entry.
void EnqueueFiveProductAttentionGrad(DType dtype, const AttentionParams& p,
                                     Queue& queue);
/// Attention and its gradients in f32, for f32 operands, for those with a bias or segments,
/// and for rows of more elements, up to kSimtDepth.
void EnqueueSimtAttention(DType dtype, const SimtAttentionParams& p,
                          Queue& queue);
void EnqueueSimtAttentionGrad(DType dtype, const SimtAttentionParams& p,
                              Queue& queue);
void EnqueueSimtAttentionBiasGrad(DType dtype, const AttentionBiasParams& p,
                                  Queue& queue);

inline constexpr int64_t kSimtDepth = 256;

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ATTENTION_PARAMS_H_
