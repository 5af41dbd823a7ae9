#ifndef STOWAGE_CPU_KERNELS_ROWS_H_
#define STOWAGE_CPU_KERNELS_ROWS_H_

// Sums and maxima of one contiguous row, for the kernels that work along the
// last axis.
//
//   T largest = RowMax(n, x);
//   T total = RowSum<T>(n, [&](auto at) { return Exp(at.Load(x)); });

#include <cstdint>
#include <limits>

#include "cpu/kernels/vec.h"

namespace stowage::cpu {

/// The largest element, to shift exponents by; anything when one is NaN.
template <typename T>
T RowMax(int64_t n, const T* x) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  Vec<T> top = Vec<T>::All(kLowest);
  ForEachVec<T>(n, [&](auto at) { top = Larger(top, at.Load(x, kLowest)); });
  return LargestLane(top);
}

/// The sum of the registers term(place), whose lanes outside the row must be 0.
/// Runs of 64 registers are summed by themselves, so rounding errors stay small
/// for long rows.
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

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_ROWS_H_
