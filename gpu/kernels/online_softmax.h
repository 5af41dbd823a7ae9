#ifndef STOWAGE_GPU_KERNELS_ONLINE_SOFTMAX_H_
#define STOWAGE_GPU_KERNELS_ONLINE_SOFTMAX_H_

// The largest element of a row and the sum of exp(x - largest), in one read
// (Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018), for
// a warp or a block on a row.
//
//   const SoftmaxSums row = OverBlock(OwnSums<kPacked>(x, n, thread, threads),
//                                     &scratch[0]);
//   const float log_sum_exp = row.largest + logf(row.sum);

#include <cmath>
#include <cstdint>

#include "gpu/block_reduce.h"
#include "gpu/kernels/rows.h"
#include "gpu/simt.h"

namespace stowage::gpu {

struct SoftmaxSums {
  float largest;
  float sum;  // of exp(x - largest)

  STOWAGE_DEVICE float LogSumExp() const { return largest + logf(sum); }
};

/// What exponents are shifted by: a row of nothing but -inf has sum 0, not NaN.
STOWAGE_DEVICE float Shift(float largest) {
  return largest == -INFINITY ? 0.0f : largest;
}

/// Over one thread's elements of a row.
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

/// Over the warp's 32 lanes.
STOWAGE_DEVICE SoftmaxSums OverWarp(const SoftmaxSums& own) {
  const float largest = WarpMax(own.largest);
  return {largest, WarpSum(RoundedProduct(
                       own.sum, FastExp(own.largest - Shift(largest))))};
}

/// Over the block. `scratch`: kWarpSize elements in shared memory.
STOWAGE_DEVICE SoftmaxSums OverBlock(const SoftmaxSums& own, float* scratch) {
  const float largest = BlockMax(own.largest, scratch);
  return {largest, BlockSum(RoundedProduct(
                                own.sum, FastExp(own.largest - Shift(largest))),
                            scratch)};
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ONLINE_SOFTMAX_H_
