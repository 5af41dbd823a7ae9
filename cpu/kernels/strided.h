#ifndef STOWAGE_CPU_KERNELS_STRIDED_H_
#define STOWAGE_CPU_KERNELS_STRIDED_H_

// Provides loops over strided operands, copies between strided operands, and range checks of
// indices.
//
// A loop visits the elements of a shape in row-major order, and a chunk of work is a range of the
// indices in this order. Adjacent dimensions are merged if the outer one continues the inner one in
// every operand. The elements are visited in runs, which are ranges along the last merged
// dimension. Contiguous operands thus become one run, and a bias that is added to rows becomes runs
// of a row's length.
//
//   StridedWalk<2> walk(shape, {&a.strides, &b.strides});
//   walk.Runs(begin, end, [&](int64_t index, const auto& offsets, int64_t n) {
//     // A run of n elements. Element i of operand k is at
//     // offsets[k] + i * walk.inner(k).
//   });

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/bytes.h"
#include "cpu/thread_pool.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

template <int kOperands>
class StridedWalk {
 public:
  using Offsets = std::array<int64_t, static_cast<size_t>(kOperands)>;

  StridedWalk(const Shape& shape,
              const std::array<const Strides*, static_cast<size_t>(kOperands)>&
                  strides) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      Offsets steps;
      for (size_t k = 0; k < steps.size(); ++k) steps[k] = (*strides[k])[axis];
      if (rank_ > 0 && Continues(steps, shape[axis])) {
        dims_[Last()] *= shape[axis];
        steps_[Last()] = steps;
      } else {
        ++rank_;
        dims_[Last()] = shape[axis];
        steps_[Last()] = steps;
      }
    }
    if (rank_ == 0) {  // A single element.
      rank_ = 1;
      dims_[0] = 1;
      steps_[0].fill(1);
    }
  }

  /// Returns the number of dimensions after merging, which is at least 1.
  int rank() const { return rank_; }
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t step(int axis, int operand) const {
    return steps_[static_cast<size_t>(axis)][static_cast<size_t>(operand)];
  }
  /// Returns the stride of operand k within a run.
  int64_t inner(int operand) const { return step(rank_ - 1, operand); }

  /// Calls f(index, offsets, count) for each run of the elements [begin, end), in order. `index` is
  /// the index of the run's first element, `offsets` has its offset in each operand, and `count` is
  /// the number of elements in the run.
  template <typename F>
  void Runs(int64_t begin, int64_t end, F&& f) const {
    if (begin >= end) return;
    std::array<int64_t, kMaxRank> place = {};
    Offsets offsets = {};
    int64_t rest = begin;
    for (int axis = rank_ - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      place[a] = rest % dims_[a];
      rest /= dims_[a];
      for (size_t k = 0; k < offsets.size(); ++k) {
        offsets[k] += place[a] * steps_[a][k];
      }
    }
    int64_t index = begin;
    while (true) {
      const int64_t count =
          std::min(dims_[Last()] - place[Last()], end - index);
      f(index, offsets, count);
      index += count;
      if (index == end) return;
      // The run reached the end of the last axis, so the axes before it advance.
      Advance(Last(), count, &place, &offsets);
      for (size_t a = Last(); place[a] == dims_[a]; --a) {
        Advance(a, -dims_[a], &place, &offsets);
        Advance(a - 1, 1, &place, &offsets);
      }
    }
  }

 private:
  size_t Last() const { return static_cast<size_t>(rank_ - 1); }
  // Returns whether, for every operand, an axis of `dim` elements that are `steps` apart
  // continues the last merged axis.
  bool Continues(const Offsets& steps, int64_t dim) const {
    for (size_t k = 0; k < steps.size(); ++k) {
      if (steps_[Last()][k] != steps[k] * dim) return false;
    }
    return true;
  }
  void Advance(size_t axis, int64_t by, std::array<int64_t, kMaxRank>* place,
               Offsets* offsets) const {
    (*place)[axis] += by;
    for (size_t k = 0; k < offsets->size(); ++k) {
      (*offsets)[k] += by * steps_[axis][k];
    }
  }

  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_ = {};
  std::array<Offsets, kMaxRank> steps_ = {};
};

/// Returns whether all indices are in [0, size). A kernel must call this before it writes any
/// result.
template <typename Index>
bool InRange(const Index* indices, int64_t count, int64_t size) {
  bool good = true;
  for (int64_t i = 0; i < count; ++i) {
    good &= indices[i] >= 0 && indices[i] < size;
  }
  return good;
}

/// Returns whether all indices of a view are in [0, size). Checks repeated elements only once.
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

/// Returns `strides` with 0 at `axis`. With these strides, every index along `axis` addresses the
/// first element of its line.
inline Strides StepsToLines(Strides strides, int64_t axis) {
  strides[static_cast<int>(axis)] = 0;
  return strides;
}

/// Copies the elements of a tensor of this shape from one layout to another, in parallel. An
/// element has `width` bytes (1, 2, 4 or 8). `from` and `to` must not overlap.
void CopyStrided(const Shape& shape, Bytes width, const std::byte* from,
                 const Strides& from_strides, std::byte* to,
                 const Strides& to_strides, ThreadPool& pool);

/// Computes to += x. Integers wrap around.
template <typename T>
void AddTo(T& to, T x) {
  if constexpr (std::is_integral_v<T>) {
    to = static_cast<T>(static_cast<uint64_t>(to) + static_cast<uint64_t>(x));
  } else {
    to += x;
  }
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_STRIDED_H_
