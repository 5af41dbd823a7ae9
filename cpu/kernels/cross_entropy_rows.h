#ifndef STOWAGE_CPU_KERNELS_CROSS_ENTROPY_ROWS_H_
#define STOWAGE_CPU_KERNELS_CROSS_ENTROPY_ROWS_H_

// What the kernels of cross_entropy and linear_cross_entropy do with one row of
// logits.
//
//   const T lse = LogSumExp(n, x);
//   LogitsGrad(n, x, lse, label, dloss / rows, dx);

#include <cmath>
#include <cstdint>
#include <limits>

#include "cpu/kernels/rows.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {

/// log(sum exp x), shifted by the largest.
template <typename T>
T LogSumExp(int64_t n, const T* x) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  const T largest = RowMax(n, x);
  const Vec<T> shift = Vec<T>::All(largest);
  const T total =
      RowSum<T>(n, [&](auto at) { return Exp(at.Load(x, kLowest) - shift); });
  return largest + std::log(total);
}

/// dx = factor (softmax(x) - one at the label); dx may be x.
template <typename T>
void LogitsGrad(int64_t n, const T* x, T log_sum_exp, int64_t label, T factor,
                T* dx) {
  const Vec<T> shift = Vec<T>::All(log_sum_exp);
  ForEachVec<T>(n, [&](auto at) {
    at.Store(dx, Exp(at.Load(x) - shift) * Vec<T>::All(factor));
  });
  dx[label] -= factor;
}

/// Whether all labels are in [0, size).
template <typename Label>
bool InRange(const Label* labels, int64_t rows, int64_t size) {
  bool good = true;
  for (int64_t i = 0; i < rows; ++i) good &= labels[i] >= 0 && labels[i] < size;
  return good;
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CROSS_ENTROPY_ROWS_H_
