#ifndef STOWAGE_IR_WINDOWS_H_
#define STOWAGE_IR_WINDOWS_H_

// Computes the geometry of sliding windows, padding and convolutions along the spatial axes of a
// tensor (N, C, spatial...), for shape rules and kernels.
//
// Along an axis of size `in`, result o is computed from the elements at positions
// o * stride - before + i * dilation, for i in [0, kernel). Positions outside [0, in) are padding.
//
//   const WindowAxes axes = WindowAxesOf(attrs, x_shape, y_shape);
//   for (int64_t o = 0; o < axes[2].out; ++o) {
//     const Taps taps = axes[2].TapsOf(o);
//     for (int64_t i = taps.first; i < taps.end; ++i) x[axes[2].Place(o, i)];
//   }

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "ir/attrs.h"
#include "ir/tensor_type.h"

namespace stowage {

/// A parameter of a window, such as the stride. It is either one number for all spatial dimensions,
/// such as `2`, or one number for each, such as `{2, 1}`. Padding may also be a list of the padding
/// before each dimension, followed by the padding after each dimension: `{1, 1, 0, 0}`.
///
///   Conv(x, w, {.stride = 2, .padding = {1, 0}});
class EachDimension {
 public:
  EachDimension(int64_t all) : values_{all} {}
  EachDimension(std::initializer_list<int64_t> values) : values_(values) {}
  EachDimension(std::vector<int64_t> values) : values_(std::move(values)) {}
  const std::vector<int64_t>& values() const { return values_; }

  /// Returns one number for each of `dimensions` dimensions. A list of another length is returned
  /// unchanged, and the op then reports an error.
  std::vector<int64_t> For(int dimensions) const {
    if (values_.size() != 1 || dimensions < 1) return values_;
    return std::vector<int64_t>(static_cast<size_t>(dimensions), values_[0]);
  }

  /// Returns the padding before each dimension, followed by the padding after each dimension. Both
  /// are equal if the parameter has at most one number per dimension. A list of any other length is
  /// returned unchanged.
  std::vector<int64_t> BothSides(int dimensions) const {
    std::vector<int64_t> both = For(dimensions);
    const size_t count = both.size();
    if (count != static_cast<size_t>(dimensions)) return both;
    both.reserve(2 * count);
    for (size_t i = 0; i < count; ++i) both.push_back(both[i]);
    return both;
  }

 private:
  std::vector<int64_t> values_;
};

/// The content of padding: a constant, the elements mirrored at the outermost element, or copies of
/// the outermost element.
enum class PadMode : uint8_t { kConstant = 0, kReflect = 1, kEdge = 2 };

struct PaddedAxis {
  int64_t in = 1;
  int64_t before = 0;
};

/// Returns the index of the element of the original axis, in [0, axis.in), that element `i` of the
/// padded axis copies. Returns a negative number if element `i` is the constant. With kReflect, the
/// padding on each side must be less than axis.in.
///
///   SourceOfPadded({.in = 4, .before = 2}, PadMode::kReflect, 0) == 2
constexpr int64_t SourceOfPadded(const PaddedAxis& axis, PadMode mode,
                                 int64_t i) {
  const int64_t at = i - axis.before;
  if (at >= 0 && at < axis.in) return at;
  if (mode == PadMode::kConstant) return -1;
  if (mode == PadMode::kEdge) return at < 0 ? 0 : axis.in - 1;
  return at < 0 ? -at : 2 * (axis.in - 1) - at;
}

/// The maximum number of spatial axes of a window.
inline constexpr int kMaxSpatialAxes = 3;

/// The range [first, end) of the indices of a window's elements that are not padding. It is empty
/// if end <= first.
struct Taps {
  int64_t first = 0;
  int64_t end = 0;
};

struct WindowAxis {
  int64_t in = 1, out = 1;
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t before = 0, after = 0;

  /// Returns the distance from a window's first element to its last, plus 1.
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
  /// Returns the index in the input of element `i` of window `o`. Indices outside [0, in) are
  /// padding.
  int64_t Place(int64_t o, int64_t i) const {
    return o * stride - before + i * dilation;
  }
  /// Returns the elements of window `o` that are not padding.
  Taps TapsOf(int64_t o) const {
    const int64_t start = Place(o, 0);
    if (start >= 0 && start + extent() <= in) return {0, kernel};
    const int64_t first = start >= 0 ? 0 : (dilation - 1 - start) / dilation;
    const int64_t end = (in - start + dilation - 1) / dilation;
    return {first, end < kernel ? end : kernel};
  }
};

/// The spatial axes of a tensor. If it has fewer than kMaxSpatialAxes, axes of size 1 are added in
/// front of them.
using WindowAxes = std::array<WindowAxis, kMaxSpatialAxes>;

/// Returns the spatial axes of a pooling op, which computes each element of y from a window of
/// x (N, C, spatial...). Reads the attributes "kernel", "stride", "pad_before", "pad_after" and
/// "dilation". If "dilation" is missing, dilations are 1. The op's `infer` must have accepted the
/// attributes.
WindowAxes WindowAxesOf(const Attrs& attrs, const Shape& x, const Shape& y);

/// The number of spatial dimensions of ConvGeometry.
inline constexpr int kConvDims = 3;

/// The geometry along one spatial dimension.
struct ConvDim {
  int64_t in = 1, out = 1, kernel = 1;
  int64_t stride = 1, dilation = 1;
  int64_t before = 0;  // zeros before x
};

/// The geometry of the three convolution ops. Each op has an image x (N, C, in...), filters
/// w (O, C / groups, kernel...) and an image y (N, O, out...), and computes one of the three from
/// the other two. `conv` computes y, `conv_transpose` computes x, and `conv_weight_grad` computes
/// w. With one spatial dimension and one group, `conv` is defined by
///
///   y[n, o, i] = sum over c, k of x[n, c, i * stride - before + k * dilation] w[o, c, k]
///
/// where x is 0 outside of the image. With more groups, the sum is over the C / groups channels of
/// o's group. The other two ops are the gradients of `conv`. ConvGeometry always has three spatial
/// dimensions. If the images have fewer, dimensions of size 1 are added in front of them.
///
///   const ConvGeometry g(x.shape(), w.shape(), y.shape(), *launch.attrs);
///   g.dims[1].out == y.shape()[2];  // if y has two spatial dimensions
struct ConvGeometry {
  /// Computes the geometry. The op's `infer` must have accepted these shapes and attributes.
  ConvGeometry(const Shape& x, const Shape& w, const Shape& y,
               const Attrs& attrs);

  /// These functions return the number of elements of one channel of x, of w and of y.
  int64_t in_size() const { return Product(&ConvDim::in); }
  int64_t kernel_size() const { return Product(&ConvDim::kernel); }
  int64_t out_size() const { return Product(&ConvDim::out); }

  int64_t images, groups;
  int64_t channels, filters;  // per group: channels of x, and channels of y
  std::array<ConvDim, kConvDims> dims;

 private:
  int64_t Product(int64_t ConvDim::*size) const {
    int64_t product = 1;
    for (const ConvDim& dim : dims) product *= dim.*size;
    return product;
  }
};

/// The window of channels around each channel over which local_response_norm sums. If the window
/// has an even number of channels, one more is after the center than before it, as in ONNX's LRN.
///
///   ChannelWindow::Of(4, 96);    // 1 before and 2 after
///   ChannelWindow::Of(99, 3);    // 2 and 2, which covers all channels
struct ChannelWindow {
  int64_t before = 0, after = 0;

  /// Returns the window for sums over `size` channels in a tensor with `channels` channels. Both
  /// arguments must be at least 1. The window has at most channels - 1 channels on each side.
  static constexpr ChannelWindow Of(int64_t size, int64_t channels) {
    const int64_t before = (size - 1) / 2;
    return {.before = std::min(before, channels - 1),
            .after = std::min(size - 1 - before, channels - 1)};
  }
  constexpr int64_t length() const { return before + 1 + after; }
};

}  // namespace stowage

#endif  // STOWAGE_IR_WINDOWS_H_
