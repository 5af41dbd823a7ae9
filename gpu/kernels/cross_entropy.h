#ifndef STOWAGE_GPU_KERNELS_CROSS_ENTROPY_H_
#define STOWAGE_GPU_KERNELS_CROSS_ENTROPY_H_

// The cross entropy of rows of logits, a grid at a time: what cross_entropy and
// linear_cross_entropy are made of.
//
//   EnqueueRowLosses({.logits = ..., .losses = losses, ...}, queue);
//   EnqueueMean(losses, rows, loss, queue);

#include <cstddef>
#include <cstdint>

#include "gpu/queue.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

struct LossRows {
  DType dtype = DType::kF32;  // of the logits: f32, f16 or bf16
  std::byte* logits = nullptr;
  int64_t rows = 0;
  int64_t n = 0;       // logits of a row
  int64_t stride = 0;  // elements from row to row
  const std::byte* labels = nullptr;
  DType label_dtype = DType::kI32;  // i32 or i64
  float* log_sum_exp = nullptr;     // of each row; null: not wanted
  float* losses = nullptr;          // of each row, times its weight
  float* unweighted = nullptr;      // likewise without it; null: not wanted
  const float* weights = nullptr;   // of the rows' losses; null: 1 for all
  /// Not null: each row of logits becomes its gradient,
  /// (softmax - one at the label) *dloss * scale times its weight.
  const float* dloss = nullptr;
  float scale = 0;
};

/// The loss of each row, log_sum_exp - logits[label], times its weight. A label out of range is
/// reported; the row's loss is then 0, and its gradient lacks the label's one.
void EnqueueRowLosses(const LossRows& rows, Queue& queue);

/// *mean = the mean of `count` values, added in a fixed order.
void EnqueueMean(const float* values, int64_t count, float* mean, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_CROSS_ENTROPY_H_
