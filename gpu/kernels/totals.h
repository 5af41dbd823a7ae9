#ifndef STOWAGE_GPU_KERNELS_TOTALS_H_
#define STOWAGE_GPU_KERNELS_TOTALS_H_

// What kernels that take any numbers add up in: f32, or 64 bits, which wrap around,
// for integers.

#include <cstdint>
#include <type_traits>

#include "gpu/simt.h"

namespace stowage::gpu {

template <typename T>
using Total = std::conditional_t<std::is_integral_v<T>, uint64_t, float>;

template <typename T>
STOWAGE_DEVICE Total<T> Widen(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(x);
  } else {
    return ToFloat(x);
  }
}
template <typename T>
STOWAGE_DEVICE T Narrow(Total<T> x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x);
  } else {
    return FromFloat<T>(x);
  }
}
template <typename T>
STOWAGE_DEVICE T Sum(T x, Total<T> more) {
  return Narrow<T>(Widen(x) + more);
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_TOTALS_H_
