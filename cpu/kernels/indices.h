#ifndef STOWAGE_CPU_KERNELS_INDICES_H_
#define STOWAGE_CPU_KERNELS_INDICES_H_

// What kernels that go by index share. All indices are looked at before anything is
// written.

#include <array>
#include <cstdint>
#include <type_traits>

#include "cpu/kernels/strided.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

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

/// The same of a view of them, of which those that are repeated are looked at once.
template <typename Index>
bool InRange(const TensorView& indices, int64_t size) {
  Shape shape = indices.shape();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (indices.strides[axis] == 0) shape[axis] = 1;
  }
  const StridedWalk<1> walk(shape, {&indices.strides});
  bool good = true;
  walk.Runs(0, shape.num_elements(),
            [&](int64_t, const auto& offsets, int64_t count) {
              const Index* index = indices.as<const Index>() + offsets[0];
              for (int64_t i = 0; i < count; ++i) {
                const Index each = index[i * walk.inner(0)];
                good &= each >= 0 && each < size;
              }
            });
  return good;
}

/// Steps over `strides` to the first element of each line along `axis`.
inline Strides StepsToLines(Strides strides, int64_t axis) {
  strides[static_cast<int>(axis)] = 0;
  return strides;
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
