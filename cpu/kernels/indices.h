#ifndef STOWAGE_CPU_KERNELS_INDICES_H_
#define STOWAGE_CPU_KERNELS_INDICES_H_

// What kernels that go by index share. All indices are looked at before anything is
// written.

#include <cstdint>
#include <type_traits>

namespace stowage::cpu {

/// Whether all are in [0, size).
template <typename Index>
bool InRange(const Index* indices, int64_t count, int64_t size) {
  bool good = true;
  for (int64_t i = 0; i < count; ++i) {
    good &= indices[i] >= 0 && indices[i] < size;
  }
  return good;
}

/// to += x; integers wrap around.
template <typename T>
void AddTo(T& to, T x) {
  if constexpr (std::is_integral_v<T>) {
    to = static_cast<T>(static_cast<uint64_t>(to) + static_cast<uint64_t>(x));
  } else {
    to += x;
  }
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_INDICES_H_
