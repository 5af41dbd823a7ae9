#ifndef STOWAGE_GPU_KERNELS_ATTENTION_PARAMS_H_
#define STOWAGE_GPU_KERNELS_ATTENTION_PARAMS_H_

// Declares the params of attention kernels, and the functions that enqueue these kernels. Tensor
// cores are used for 16-bit operands with up to kTensorDepth elements per row, if there are neither
// a bias nor segments. Other kernels (Simt) compute all other launches.

#include <cstdint>

#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

/// An operand (B, T, H, D) or (B, S, G, D) with contiguous rows of D elements. Strides are in
/// elements.
struct AttentionOperand {
  const void* data = nullptr;
  int64_t batch = 0, row = 0, head = 0;
};

struct AttentionParams {
  AttentionOperand q, k, v, o, d_o;
  /// The results: o, or dq, dk and dv. Heads are adjacent in a row, and the rows of out[i] are
  /// out_row[i] elements apart.
  void* out[3] = {};
  int64_t out_row[3] = {};
  float* log_sum_exp = nullptr;          // (B, H, T), read by the gradient
  float* delta = nullptr;                // (B, H, T), for the gradient: o . d_o
  const int32_t* key_lengths = nullptr;  // (B), or null, see KeysOf
  FaultSlot fault;
  int batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, depth = 0;
  /// Query `t` reads the keys from `t + low` to `t + high` (ir/attention.h).
  int low = 0, high = 0;
  float scale = 1;
  /// 1 if every row of every operand is aligned to 16 bytes, and otherwise 0. A bool would be
  /// followed by padding with unspecified bytes.
  int packed = 0;
  /// (B, H, T, S), or null. The stride of a dimension of size 1 is 0.
  AttentionOperand bias;
};

/// The params of kernels without tensor cores.
struct SimtAttentionParams : AttentionParams {
  const int32_t* segments = nullptr;  // (B, 2, T), or null (ir/ops.h)
};

/// The params of the gradient of the bias, which is `attention.out[0]`. `batch`, `row` and `head`
/// are its strides. They are 0 along dimensions over which the gradient is summed.
struct AttentionBiasParams {
  SimtAttentionParams attention;
  int64_t batch = 0, row = 0, head = 0;
};

/// Returns the address of row 0 of a head of an operand.
template <typename T>
STOWAGE_DEVICE const T* HeadOf(const AttentionOperand& x, int batch, int head) {
  return static_cast<const T*>(x.data) + batch * x.batch + head * x.head;
}

/// Returns the address of row 0 of a head of result `result`, whose batch entries have `length`
/// rows.
template <typename T>
STOWAGE_DEVICE T* HeadOf(const AttentionParams& p, int result, int batch,
                         int head, int length) {
  return static_cast<T*>(p.out[result]) +
         static_cast<int64_t>(batch) * length * p.out_row[result] +
         static_cast<int64_t>(head) * p.depth;
}

/// Returns the offset of a head in the statistics (B, H, T), which are log_sum_exp and delta.
STOWAGE_DEVICE int64_t StatisticsOf(const AttentionParams& p, int batch,
                                    int head) {
  return (static_cast<int64_t>(batch) * p.heads + head) * p.queries;
}

/// Returns the number of keys that the queries of a batch entry may read. If its key length is not
/// in [1, keys], reports a fault and returns 0.
STOWAGE_DEVICE int KeysOf(const AttentionParams& p, int batch) {
  if (p.key_lengths == nullptr) return p.keys;
  const int length = p.key_lengths[batch];
  if (length >= 1 && length <= p.keys) return length;
  if (ThreadId() == 0) ReportFault(p.fault);
  return 0;
}

/// The positions [begin, end), where `begin` is the first position of a tile.
struct AttentionRange {
  int begin, end;
};
/// KeysRead returns a range of keys that contains all keys that queries [first, first + rows) read.
/// Readers returns a range of queries that contains all queries that read keys [first, first +
/// rows). `keys` is the result of KeysOf. The begin of the range is a multiple of `key_rows` or
/// `query_rows`, the number of rows in a tile of the result.
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

/// The positions [first, last].
struct AttentionReach {
  int first, last;
  STOWAGE_DEVICE bool Has(int i) const { return i >= first && i <= last; }
};
/// KeysOfQuery returns the keys that `query` reads, as positions relative to `key`. QueriesOfKey
/// returns the queries that read `key`. `keys` is the result of KeysOf.
STOWAGE_DEVICE AttentionReach KeysOfQuery(const AttentionParams& p, int keys,
                                          int query, int key) {
  const int last = query + p.high;
  return {query + p.low - key, (last < keys ? last : keys - 1) - key};
}
STOWAGE_DEVICE AttentionReach QueriesOfKey(const AttentionParams& p, int keys,
                                           int key) {
  return {key - p.high, key < keys ? key - p.low : -1};
}

/// Returns whether each query of a tile of queries reads each key of a tile of keys. Queries of the
/// tile beyond the sequence are ignored.
STOWAGE_DEVICE bool ReadAll(const AttentionParams& p, int keys, int first_query,
                            int query_rows, int first_key, int key_rows) {
  const int last_key = first_key + key_rows - 1;
  const int end_query = first_query + query_rows;
  const int last_query = (end_query < p.queries ? end_query : p.queries) - 1;
  return last_key < keys && last_key <= first_query + p.high &&
         first_key >= last_query + p.low;
}

inline constexpr int64_t kTensorDepth = 128;

/// EnqueueTensorAttention and EnqueueTensorAttentionGrad enqueue attention and its gradient on
/// tensor cores, with warp-level matmuls (AttentionAlgorithm::kWarps). All gradients read
/// `p.delta`, which must be computed before.
void EnqueueTensorAttention(DType dtype, const AttentionParams& p,
                            Queue& queue);
void EnqueueTensorAttentionGrad(DType dtype, const AttentionParams& p,
                                Queue& queue);
/// EnqueueWarpgroupAttention and EnqueueWarpgroupAttentionGrad enqueue the same with
/// warpgroup-level matmuls (AttentionAlgorithm::kWarpgroups). They require compute capability 9.0
/// and `p.packed`.
void EnqueueWarpgroupAttention(DType dtype, const AttentionParams& p,
                               Queue& queue);
void EnqueueWarpgroupAttentionGrad(DType dtype, const AttentionParams& p,
                                   Queue& queue);
/// Returns whether AttentionAlgorithm::kFiveProducts supports the gradient. It requires 16-bit
/// elements, as many keys as queries, a mask under which no query reads a later key, as many key
/// heads as query heads, rows whose length is a multiple of 16 and at most kTensorDepth, neither a
/// bias nor key lengths, and at most kMaxGridY batch entries. Addresses may have any alignment.
bool TakesFiveProducts(DType dtype, const AttentionParams& p);
/// Enqueues the gradient by AttentionAlgorithm::kFiveProducts, as one pass with a block for each
/// head of each batch entry. Requires TakesFiveProducts(dtype, p).
void EnqueueFiveProductAttentionGrad(DType dtype, const AttentionParams& p,
                                     Queue& queue);
/// EnqueueSimtAttention, EnqueueSimtAttentionGrad and EnqueueSimtAttentionBiasGrad enqueue
/// attention, its gradient, and the gradient of the bias, computed in f32 without tensor cores.
/// They support operands of any float type, a bias, segments, and rows with up to kSimtDepth
/// elements.
void EnqueueSimtAttention(DType dtype, const SimtAttentionParams& p,
                          Queue& queue);
void EnqueueSimtAttentionGrad(DType dtype, const SimtAttentionParams& p,
                              Queue& queue);
void EnqueueSimtAttentionBiasGrad(DType dtype, const AttentionBiasParams& p,
                                  Queue& queue);

inline constexpr int64_t kSimtDepth = 256;

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ATTENTION_PARAMS_H_
