#ifndef STOWAGE_CPU_KERNELS_STRIDED_H_
#define STOWAGE_CPU_KERNELS_STRIDED_H_

// Walks over strided operands in the row-major order of a shape.
//
// Dimensions that lie one after the other in every operand are merged, so that
// what is contiguous becomes one run, and a bias added to rows becomes runs of
// a row's length. Element numbers count in the row-major order of the shape: a
// range of them is a chunk of work.
//
//   StridedWalk<2> walk(shape, {&a.strides, &b.strides});
//   walk.Runs(begin, end, [&](int64_t index, const auto& offsets, int64_t n) {
//     // n elements: element i of operand k is at offsets[k] + i *
//     // walk.inner(k)
//   });

#include <algorithm>
#include <array>
#include <cstdint>

#include "ir/tensor_type.h"

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
    if (rank_ == 0) {  // a single element
      rank_ = 1;
      dims_[0] = 1;
      steps_[0].fill(1);
    }
  }

  /// After merging; at least 1.
  int rank() const { return rank_; }
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t step(int axis, int operand) const {
    return steps_[static_cast<size_t>(axis)][static_cast<size_t>(operand)];
  }
  /// Stride of operand k within a run.
  int64_t inner(int operand) const { return step(rank_ - 1, operand); }

  /// f(index, offsets, count) for the runs that make up elements [begin, end).
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
      // The run reached the end of the last axis: step the one before.
      Advance(Last(), count, &place, &offsets);
      for (size_t a = Last(); place[a] == dims_[a]; --a) {
        Advance(a, -dims_[a], &place, &offsets);
        Advance(a - 1, 1, &place, &offsets);
      }
    }
  }

 private:
  size_t Last() const { return static_cast<size_t>(rank_ - 1); }
  // Whether an axis of `dim` elements, `steps` apart, is for every operand the
  // inside of the last axis kept so far.
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

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_STRIDED_H_
