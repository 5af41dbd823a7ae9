#ifndef STOWAGE_CPU_KERNELS_ROWS_H_
#define STOWAGE_CPU_KERNELS_ROWS_H_

// Provides reductions of one contiguous row, for kernels along the last axis: sums, maxima,
// log-sum-exp and the gradient of the cross-entropy.
//
//   T largest = RowMax(n, x);
//   T total = RowSum<T>(n, [&](auto at) { return Exp(at.Load(x, -infinity)); });
//
//   const T lse = LogSumExp(n, x);
//   LogitsGrad(n, x, lse, label, dloss / rows, dx);

#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/kernels/vec.h"

namespace stowage::cpu {

/// Returns the largest element. The result is unspecified if an element is NaN.
template <typename T>
T RowMax(int64_t n, const T* x) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  Vec<T> top = Vec<T>::All(kLowest);
  ForEachVec<T>(n, [&](auto at) { top = Larger(top, at.Load(x, kLowest)); });
  return LargestLane(top);
}

/// Returns the sum over all lanes of term(place), where `place` runs over the registers of the row
/// (ForEachVec). The lanes outside the row must be 0. Blocks of 64 registers are summed separately,
/// which keeps the rounding errors of long rows small.
template <typename T, typename F>
T RowSum(int64_t n, F&& term) {
  constexpr int kBlock = 64;
  Vec<T> total = Vec<T>::Zero();
  Vec<T> sum = Vec<T>::Zero();
  int in_block = 0;
  ForEachVec<T>(n, [&](auto at) {
    sum += term(at);
    if (++in_block == kBlock) {
      total += sum;
      sum = Vec<T>::Zero();
      in_block = 0;
    }
  });
  return SumLanes(total + sum);
}

/// Returns log(sum(exp(x))), computed after subtracting the largest element. Returns NaN if an
/// element is NaN or +infinity, or if all elements are -infinity.
template <typename T>
T LogSumExp(int64_t n, const T* x) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  const T largest = RowMax(n, x);
  const Vec<T> shift = Vec<T>::All(largest);
  const T total =
      RowSum<T>(n, [&](auto at) { return Exp(at.Load(x, kLowest) - shift); });
  return largest + std::log(total);
}

/// Computes dx = factor (softmax(x) - onehot(label)) for one row, where `log_sum_exp` is
/// LogSumExp(n, x). Requires that `label` is in [0, n). `dx` may be equal to `x`.
template <typename T>
void LogitsGrad(int64_t n, const T* x, T log_sum_exp, int64_t label, T factor,
                T* dx) {
  const Vec<T> shift = Vec<T>::All(log_sum_exp);
  ForEachVec<T>(n, [&](auto at) {
    at.Store(dx, Exp(at.Load(x) - shift) * Vec<T>::All(factor));
  });
  dx[label] -= factor;
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_ROWS_H_
