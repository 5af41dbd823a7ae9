#include "ir/windows.h"

#include <cstddef>

namespace stowage {

WindowAxes WindowAxesOf(const Attrs& attrs, const Shape& x, const Shape& y) {
  const bool dilated = attrs.Find("dilation") != nullptr;
  const int spatial = x.rank() - 2;
  WindowAxes axes;
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    axes[static_cast<size_t>(kMaxSpatialAxes - spatial + i)] = {
        .in = x[2 + i],
        .out = y[2 + i],
        .kernel = attrs.Ints("kernel")[at],
        .stride = attrs.Ints("stride")[at],
        .dilation = dilated ? attrs.Ints("dilation")[at] : 1,
        .before = attrs.Ints("pad_before")[at],
        .after = attrs.Ints("pad_after")[at]};
  }
  return axes;
}

ConvGeometry::ConvGeometry(const Shape& x, const Shape& w, const Shape& y,
                           const Attrs& attrs)
    : images(x[0]),
      groups(attrs.Int("groups")),
      channels(w[1]),
      filters(w[0] / groups) {
  const int spatial = x.rank() - 2;
  for (int i = 0; i < spatial; ++i) {
    const auto at = static_cast<size_t>(i);
    dims[static_cast<size_t>(kConvDims - spatial + i)] = {
        .in = x[2 + i],
        .out = y[2 + i],
        .kernel = w[2 + i],
        .stride = attrs.Ints("stride")[at],
        .dilation = attrs.Ints("dilation")[at],
        .before = attrs.Ints("padding")[at]};
  }
}

}  // namespace stowage
