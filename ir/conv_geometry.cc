#include "ir/conv_geometry.h"

#include <vector>

namespace stowage {

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
