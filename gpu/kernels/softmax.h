#ifndef STOWAGE_GPU_KERNELS_SOFTMAX_H_
#define STOWAGE_GPU_KERNELS_SOFTMAX_H_

// Rows of logits: the online softmax of a row (the largest element and the sum of
// exp(x - largest) in one read; Milakov & Gimelshein, "Online normalizer calculation for
// softmax", 2018) by a warp or a block; and the cross entropy of many rows, which
// cross_entropy and linear_cross_entropy share.
//
//   const SoftmaxSums row = OverBlock(OwnSums<kPacked>(x, n, thread, threads),
//                                     &scratch[0]);
//   const float log_sum_exp = row.largest + logf(row.sum);
//
//   EnqueueRowLosses({.logits = ..., .losses = losses, ...}, queue);
//   EnqueueMean(losses, rows, loss, queue);

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "gpu/kernels/rows.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

struct SoftmaxSums {
  float largest;
  float sum;  // of exp(x - largest)

  STOWAGE_DEVICE float LogSumExp() const { return largest + logf(sum); }
};

/// The shift of exponents: 0 for a row of only -inf, whose sum is then 0, not NaN.
STOWAGE_DEVICE float Shift(float largest) {
  return largest == -INFINITY ? 0.0f : largest;
}

/// The sums over one thread's elements of a row.
template <bool kPacked, typename T>
STOWAGE_DEVICE SoftmaxSums OwnSums(const T* x, int64_t n, int thread,
                                   int threads) {
  constexpr int kWidth = kPackSize<T>;
  const T lowest = FromFloat<T>(-INFINITY);
  SoftmaxSums own = {-INFINITY, 0.0f};
  for (int64_t i = thread * kWidth; i < n; i += threads * kWidth) {
    const Pack<T> pack = LoadOfRow<kPacked>(x, i, n, lowest);
    float value[kWidth];
    float largest = own.largest;
    for (int j = 0; j < kWidth; ++j) {
      value[j] = ToFloat(pack.value[j]);
      largest = fmaxf(largest, value[j]);
    }
    const float shift = Shift(largest);
    float sum = 0;
    for (int j = 0; j < kWidth; ++j) sum += FastExp(value[j] - shift);
    own.sum = fmaf(own.sum, FastExp(own.largest - shift), sum);
    own.largest = largest;
  }
  return own;
}

/// The sums over the warp's 32 lanes.
STOWAGE_DEVICE SoftmaxSums OverWarp(const SoftmaxSums& own) {
  const float largest = WarpMax(own.largest);
  return {largest, WarpSum(RoundedProduct(
                       own.sum, FastExp(own.largest - Shift(largest))))};
}

/// The sums over the block. `scratch`: kWarpSize elements in shared memory.
STOWAGE_DEVICE SoftmaxSums OverBlock(const SoftmaxSums& own, float* scratch) {
  const float largest = BlockMax(own.largest, scratch);
  return {largest, BlockSum(RoundedProduct(
                                own.sum, FastExp(own.largest - Shift(largest))),
                            scratch)};
}

/// Rows of logits with their labels, and where their losses go.
struct LossRows {
  DType dtype = DType::kF32;  // of the logits: f32, f16 or bf16
  std::byte* logits = nullptr;
  int64_t rows = 0;
  int64_t n = 0;       // logits of a row
  int64_t stride = 0;  // elements from row to row
  const std::byte* labels = nullptr;
  DType label_dtype = DType::kI32;  // i32 or i64
  float* log_sum_exp = nullptr;     // of each row; may be null
  float* losses = nullptr;          // of each row, times its weight
  float* unweighted = nullptr;      // of each row; may be null
  const float* weights = nullptr;   // of the rows' losses; null: 1 for all
  /// If not null, each row of logits is replaced by its gradient,
  /// (softmax - onehot(label)) * dloss * scale * weight.
  const float* dloss = nullptr;
  float scale = 0;
};

/// Computes the loss of each row, log_sum_exp - logits[label], times its weight. A label out
/// of range is reported as a fault; the row's loss is then 0, and its gradient lacks the
/// label's term.
void EnqueueRowLosses(const LossRows& rows, Queue& queue);

/// *mean = the mean of `count` values, added in a fixed order.
void EnqueueMean(const float* values, int64_t count, float* mean, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_SOFTMAX_H_
