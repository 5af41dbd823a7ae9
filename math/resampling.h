#ifndef STOWAGE_MATH_RESAMPLING_H_
#define STOWAGE_MATH_RESAMPLING_H_

// Coordinates of a resized axis. Element o of the result is sampled at num / den of the
// operand, num = max(0, o * step + start). Coordinates are fractions of integers, so every
// processor finds the same neighbours.
//
//   const auto axis = ResampledAxis::Linear(4, 8, /*align_corners=*/false);
//   const Neighbours from = axis.At(3);   // from.low == 1, from.weight == 0.25

#include <cstdint>

#include "math/portable.h"

namespace stowage::math {

/// Element low + 1 has `weight`, element low 1 - weight.
struct Neighbours {
  int64_t low;
  double weight;
};

struct ResampledAxis {
  int64_t in = 1, out = 1;
  int64_t step = 1, start = 0, den = 1;
  int64_t linear = 0;  // 0 or 1; 64 bits, so that the struct has no padding

  /// Samples the element at o * in / out, rounded down.
  static ResampledAxis Nearest(int64_t in, int64_t out) {
    return {in, out, in, 0, out, 0};
  }
  /// Interpolates between the neighbours of (o + 1/2) in / out - 1/2, or, with aligned
  /// corners, of o (in - 1) / (out - 1).
  static ResampledAxis Linear(int64_t in, int64_t out, bool align_corners) {
    if (!align_corners) return {in, out, 2 * in, in - out, 2 * out, 1};
    return {in, out, in - 1, 0, out > 1 ? out - 1 : 1, 1};
  }

  STOWAGE_HOST_DEVICE Neighbours At(int64_t o) const {
    const int64_t place = o * step + start;
    const int64_t num = place < 0 ? 0 : place;
    const int64_t low = num / den;
    // The last element has no upper neighbour.
    if (linear == 0 || low >= in - 1) return {low < in ? low : in - 1, 0};
    return {low,
            static_cast<double>(num - low * den) / static_cast<double>(den)};
  }

  /// The weight of element i in element o of the result, times den. Precondition: o is in
  /// [First(i), End(i)).
  STOWAGE_HOST_DEVICE int64_t Share(int64_t i, int64_t o) const {
    if (linear == 0) return den;
    const int64_t last = (in - 1) * den;
    const int64_t place = o * step + start;
    const int64_t num = place < 0 ? 0 : place < last ? place : last;
    const int64_t apart = num < i * den ? i * den - num : num - i * den;
    return apart < den ? den - apart : 0;
  }

  /// [First(i), End(i)) contains all elements of the result in which element i has a weight.
  STOWAGE_HOST_DEVICE int64_t First(int64_t i) const {
    const int64_t low = i - linear;
    return low <= 0 ? 0 : Reaching(low);
  }
  STOWAGE_HOST_DEVICE int64_t End(int64_t i) const {
    return i >= in - 1 ? out : Reaching(i + 1);
  }

 private:
  // The first element of the result sampled at i or later, for i > 0.
  STOWAGE_HOST_DEVICE int64_t Reaching(int64_t i) const {
    const int64_t num = i * den - start;
    const int64_t o = num <= 0 ? 0 : (num + step - 1) / step;
    return o < out ? o : out;
  }
};

}  // namespace stowage::math

#endif  // STOWAGE_MATH_RESAMPLING_H_
