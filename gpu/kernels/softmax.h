#ifndef STOWAGE_GPU_KERNELS_SOFTMAX_H_
#define STOWAGE_GPU_KERNELS_SOFTMAX_H_

// Computes the softmax statistics and the cross-entropy of rows of logits. The statistics are the
// largest element of a row and the sum of exp(x - largest). A warp or a block computes them with
// one read of the row, by the online softmax (Milakov & Gimelshein, "Online normalizer calculation
// for softmax", 2018). cross_entropy and linear_cross_entropy share the kernel that computes the
// loss of each row.
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
  float sum;  // the sum of exp(x - largest)

  STOWAGE_DEVICE float LogSumExp() const { return largest + logf(sum); }
};

/// Returns the number that is subtracted from the elements of a row. It is 0 for a row of only
/// -inf, so that the sum of the row is 0 and not NaN.
STOWAGE_DEVICE float Shift(float largest) {
  return largest == -INFINITY ? 0.0f : largest;
}

/// Returns the statistics of the elements of row `x` that thread `thread` of `threads` reads. The
/// row has n elements. kPacked is as in LoadOfRow (gpu/kernels/rows.h).
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

/// Returns the statistics over the 32 lanes of the warp.
STOWAGE_DEVICE SoftmaxSums OverWarp(const SoftmaxSums& own) {
  const float largest = WarpMax(own.largest);
  return {largest, WarpSum(RoundedProduct(
                       own.sum, FastExp(own.largest - Shift(largest))))};
}

/// Returns the statistics over the block. `scratch` must have kWarpSize elements in shared memory.
STOWAGE_DEVICE SoftmaxSums OverBlock(const SoftmaxSums& own, float* scratch) {
  const float largest = BlockMax(own.largest, scratch);
  return {largest, BlockSum(RoundedProduct(
                                own.sum, FastExp(own.largest - Shift(largest))),
                            scratch)};
}

/// The rows of logits, their labels, and the addresses to which EnqueueRowLosses writes results.
struct LossRows {
  DType dtype = DType::kF32;  // element type of the logits: f32, f16 or bf16
  std::byte* logits = nullptr;
  int64_t rows = 0;
  int64_t n = 0;       // logits per row
  int64_t stride = 0;  // elements from one row to the next
  const std::byte* labels = nullptr;
  DType label_dtype = DType::kI32;  // i32 or i64
  float* log_sum_exp = nullptr;     // per row, may be null
  float* losses = nullptr;          // per row, multiplied by the row's weight
  float* unweighted = nullptr;      // per row, without its weight, may be null
  const float* weights = nullptr;   // per row, or null if all are 1
  /// If not null, each row of logits is replaced by its gradient,
  /// (softmax - onehot(label)) * dloss * scale * weight.
  const float* dloss = nullptr;
  float scale = 0;
};

/// Enqueues a kernel that computes the loss of each row, which is log_sum_exp - logits[label],
/// multiplied by the weight of the row. If a label is out of range, the kernel reports a fault. The
/// loss of the row is then 0, and its gradient lacks the term of the label.
void EnqueueRowLosses(const LossRows& rows, Queue& queue);

/// Enqueues a kernel that writes the mean of `count` values, which it adds in a fixed order, to
/// `mean`.
void EnqueueMean(const float* values, int64_t count, float* mean, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_SOFTMAX_H_
