#ifndef STOWAGE_MATH_RESAMPLING_H_
#define STOWAGE_MATH_RESAMPLING_H_

// Where the elements of a resized axis come from. Places are fractions of integers,
// so that every processor finds the same neighbours: element o of the result lies
// at num / den of the operand, num = o * step + start, or at 0 where num is below.
//
//   const auto axis = ResampledAxis::Linear(4, 8, /*align_corners=*/false);
//   const Neighbours from = axis.At(3);   // from.low == 1, from.weight == 0.25

#include <cstdint>

#include "math/portable.h"

namespace stowage::math {

/// `weight` is that of low + 1, 1 - weight that of low.
struct Neighbours {
  int64_t low;
  double weight;
};

struct ResampledAxis {
  int64_t in = 1, out = 1;
  int64_t step = 1, start = 0, den = 1;
  int64_t linear =
      0;  // 0 or 1; as wide as the others, so that there are no gaps

  /// The element at o * in / out, rounded down.
  static ResampledAxis Nearest(int64_t in, int64_t out) {
    return {in, out, in, 0, out, 0};
  }
  /// Between the two neighbours of (o + 1/2) in / out - 1/2, or, where corners lie
  /// on corners, of o (in - 1) / (out - 1).
  static ResampledAxis Linear(int64_t in, int64_t out, bool align_corners) {
    if (!align_corners) return {in, out, 2 * in, in - out, 2 * out, 1};
    return {in, out, in - 1, 0, out > 1 ? out - 1 : 1, 1};
  }

  STOWAGE_HOST_DEVICE Neighbours At(int64_t o) const {
    const int64_t place = o * step + start;
    const int64_t num = place < 0 ? 0 : place;
    const int64_t low = num / den;
    // Behind the last element there is none to mix it with.
    if (linear == 0 || low >= in - 1) return {low < in ? low : in - 1, 0};
    return {low,
            static_cast<double>(num - low * den) / static_cast<double>(den)};
  }

  /// The weight that element i has in element o of the result, times den: of the
  /// elements [First(i), End(i)).
  STOWAGE_HOST_DEVICE int64_t Share(int64_t i, int64_t o) const {
    if (linear == 0) return den;
    const int64_t last = (in - 1) * den;
    const int64_t place = o * step + start;
    const int64_t num = place < 0 ? 0 : place < last ? place : last;
    const int64_t apart = num < i * den ? i * den - num : num - i * den;
    return apart < den ? den - apart : 0;
  }

  /// The elements of the result that element i may have a weight in: [First, End).
  STOWAGE_HOST_DEVICE int64_t First(int64_t i) const {
    const int64_t low = i - linear;
    return low <= 0 ? 0 : Reaching(low);
  }
  STOWAGE_HOST_DEVICE int64_t End(int64_t i) const {
    return i >= in - 1 ? out : Reaching(i + 1);
  }

 private:
  // The first element of the result that lies at i or behind, for i above 0.
  STOWAGE_HOST_DEVICE int64_t Reaching(int64_t i) const {
    const int64_t num = i * den - start;
    const int64_t o = num <= 0 ? 0 : (num + step - 1) / step;
    return o < out ? o : out;
  }
};

}  // namespace stowage::math

#endif  // STOWAGE_MATH_RESAMPLING_H_
