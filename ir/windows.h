#ifndef STOWAGE_IR_WINDOWS_H_
#define STOWAGE_IR_WINDOWS_H_

// Windows that slide along the spatial axes of a tensor (N, C, spatial...): what the
// attributes kernel, stride, pad_before, pad_after and dilation mean, for the ops
// that have them and for their kernels.
//
// Result o takes the elements o * stride - before + i * dilation, for i in
// [0, kernel); those outside [0, in) are padding.
//
//   const WindowAxes axes = WindowAxesOf(attrs, x_shape, y_shape);
//   for (int64_t o = 0; o < axes[2].out; ++o) {
//     const Taps taps = axes[2].TapsOf(o);
//     for (int64_t i = taps.first; i < taps.end; ++i) x[axes[2].Place(o, i)];
//   }

#include <array>
#include <cstdint>

#include "ir/attrs.h"
#include "ir/shape.h"

namespace stowage {

/// Spatial axes that a window may have.
inline constexpr int kMaxSpatialAxes = 3;

/// The elements of a window that are no padding: numbers [first, end) of it.
struct Taps {
  int64_t first = 0;
  int64_t end = 0;
};

struct WindowAxis {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;

  /// From the first element of a window to its last, both counted.
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
  /// Where element i of window o lies; outside [0, in) it is padding.
  int64_t Place(int64_t o, int64_t i) const {
    return o * stride - before + i * dilation;
  }
  Taps TapsOf(int64_t o) const {
    const int64_t start = Place(o, 0);
    if (start >= 0 && start + extent() <= in) return {0, kernel};
    const int64_t first = start >= 0 ? 0 : (dilation - 1 - start) / dilation;
    const int64_t end = (in - start + dilation - 1) / dilation;
    return {first, end < kernel ? end : kernel};
  }
};

/// The last spatial axis is the last of these; axes that the tensor does not have
/// come first and have one element.
using WindowAxes = std::array<WindowAxis, kMaxSpatialAxes>;

/// The axes between x (N, C, spatial...) and y, one element of it a window. An
/// attribute that is not there (dilation) is 1 everywhere. Precondition: the ops
/// that have these attributes have checked them.
WindowAxes WindowAxesOf(const Attrs& attrs, const Shape& x, const Shape& y);

}  // namespace stowage

#endif  // STOWAGE_IR_WINDOWS_H_
