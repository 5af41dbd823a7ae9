#ifndef STOWAGE_MATH_RESAMPLING_H_
#define STOWAGE_MATH_RESAMPLING_H_

// Computes where each element of a resized axis is sampled. Element o of the result is sampled at
// coordinate num / den of the operand, where num = max(0, o * step + start). Coordinates are
// fractions of integers, so every processor finds the same neighbors.
//
//   const auto axis = ResampledAxis::Linear(4, 8, /*align_corners=*/false);
//   const Neighbours from = axis.At(3);   // from.low == 1, from.weight == 0.25

#include <cstdint>

#include "math/portable.h"

namespace stowage::math {

/// The two elements of the operand between which a result is interpolated. Element low + 1 has the
/// weight `weight`, and element low has the weight 1 - `weight`.
struct Neighbours {
  int64_t low;
  double weight;
};

/// The sampling coordinates of an axis with `in` elements in the operand and `out` elements in the
/// result. Both must be positive.
struct ResampledAxis {
  int64_t in = 1, out = 1;
  int64_t step = 1, start = 0, den = 1;
  /// 1 for linear interpolation, 0 for the nearest element. It has 64 bits so that the struct has
  /// no padding.
  int64_t linear = 0;

  /// Returns an axis whose element o is the operand's element at o * in / out, rounded down.
  static ResampledAxis Nearest(int64_t in, int64_t out) {
    return {in, out, in, 0, out, 0};
  }
  /// Returns an axis that is interpolated linearly at coordinate (o + 1/2) in / out - 1/2. With
  /// aligned corners, the coordinate is o (in - 1) / (out - 1), or 0 if `out` is 1.
  static ResampledAxis Linear(int64_t in, int64_t out, bool align_corners) {
    if (!align_corners) return {in, out, 2 * in, in - out, 2 * out, 1};
    return {in, out, in - 1, 0, out > 1 ? out - 1 : 1, 1};
  }

  /// Returns the neighbors of element o of the result.
  STOWAGE_HOST_DEVICE Neighbours At(int64_t o) const {
    const int64_t place = o * step + start;
    const int64_t num = place < 0 ? 0 : place;
    const int64_t low = num / den;
    // The last element has no upper neighbor.
    if (linear == 0 || low >= in - 1) return {low < in ? low : in - 1, 0};
    return {low,
            static_cast<double>(num - low * den) / static_cast<double>(den)};
  }

  /// Returns the weight of element i of the operand in element o of the result, multiplied by den.
  /// `o` must be in [First(i), End(i)).
  STOWAGE_HOST_DEVICE int64_t Share(int64_t i, int64_t o) const {
    if (linear == 0) return den;
    const int64_t last = (in - 1) * den;
    const int64_t place = o * step + start;
    const int64_t num = place < 0 ? 0 : place < last ? place : last;
    const int64_t apart = num < i * den ? i * den - num : num - i * den;
    return apart < den ? den - apart : 0;
  }

  /// Return the bounds of the range [First(i), End(i)) of the result, which contains all elements
  /// in which element i of the operand has a nonzero weight.
  STOWAGE_HOST_DEVICE int64_t First(int64_t i) const {
    const int64_t low = i - linear;
    return low <= 0 ? 0 : Reaching(low);
  }
  STOWAGE_HOST_DEVICE int64_t End(int64_t i) const {
    return i >= in - 1 ? out : Reaching(i + 1);
  }

 private:
  // Returns the first element of the result that is sampled at coordinate i or above, for i > 0.
  STOWAGE_HOST_DEVICE int64_t Reaching(int64_t i) const {
    const int64_t num = i * den - start;
    const int64_t o = num <= 0 ? 0 : (num + step - 1) / step;
    return o < out ? o : out;
  }
};

}  // namespace stowage::math

#endif  // STOWAGE_MATH_RESAMPLING_H_
