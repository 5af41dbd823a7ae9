#ifndef STOWAGE_GPU_KERNELS_ATTENTION_PARAMS_H_
#define STOWAGE_GPU_KERNELS_ATTENTION_PARAMS_H_

// What the kernels of causal attention are given, and who enqueues them: the
// tensor-core kernels for 16-bit operands with up to kTensorDepth elements a
// row, others for the rest.

#include <cstdint>

#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/dtype.h"

namespace stowage::gpu {

/// An operand (B, T, H, D) whose rows of D are contiguous; strides in elements.
struct AttentionOperand {
  const void* data = nullptr;
  int64_t batch = 0, row = 0, head = 0;
};

struct AttentionParams {
  AttentionOperand q, k, v, o, d_o;
  /// o, or dq, dk and dv: contiguous.
  void* out[3] = {};
  float* log_sum_exp = nullptr;  // (B, H, T); the gradient reads it
  float* delta = nullptr;        // (B, H, T), gradient: o . d_o
  int batch = 0, length = 0, heads = 0, key_heads = 0, depth = 0;
  float scale = 1;
  /// Whether every row of every operand starts at a multiple of 16 bytes: 1 or 0.
  /// Behind a bool there would be padding, with stale bytes.
  int packed = 0;
};

/// Row 0 of a head.
template <typename T>
STOWAGE_DEVICE const T* HeadOf(const AttentionOperand& x, int batch, int head) {
  return static_cast<const T*>(x.data) + batch * x.batch + head * x.head;
}

/// Row 0 of a head of a contiguous result; rows are heads * depth apart.
template <typename T>
STOWAGE_DEVICE T* HeadOf(void* out, int batch, int head, int length, int heads,
                         int depth) {
  return static_cast<T*>(out) +
         (static_cast<int64_t>(batch) * length * heads + head) * depth;
}

/// Where the statistics (B, H, T) of a head begin.
STOWAGE_DEVICE int64_t StatisticsOf(const AttentionParams& p, int batch,
                                    int head) {
  return (static_cast<int64_t>(batch) * p.heads + head) * p.length;
}

inline constexpr int64_t kTensorDepth = 128;

/// What the gradient's kernels find in p.delta is made before.
void EnqueueTensorAttention(DType dtype, const AttentionParams& p,
                            Queue& queue);
void EnqueueTensorAttentionGrad(DType dtype, const AttentionParams& p,
                                Queue& queue);
/// The same in f32, for f32 operands and for rows of more elements, up to
/// kSimtDepth.
void EnqueueSimtAttention(DType dtype, const AttentionParams& p, Queue& queue);
void EnqueueSimtAttentionGrad(DType dtype, const AttentionParams& p,
                              Queue& queue);

inline constexpr int64_t kSimtDepth = 256;

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ATTENTION_PARAMS_H_
