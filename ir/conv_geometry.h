#ifndef STOWAGE_IR_CONV_GEOMETRY_H_
#define STOWAGE_IR_CONV_GEOMETRY_H_

// What the three convolution ops have in common. Each works on a picture x (N, C,
// in...), on filters w (O, C / groups, kernel...) and on a picture y (N, O, out...),
// and makes one of the three from the other two: `conv` y, `conv_transpose` x,
// `conv_weight_grad` w. They are tied by
//
//   y[n, o, i] = sum over c, k of x[n, c, i * stride - before + k * dilation] w[o, c, k]
//
// along every spatial dimension, where x is 0 outside and c runs over the channels
// of o's group. There are always three spatial dimensions here: of fewer, the first
// ones have size 1.
//
//   const ConvGeometry g(x.shape(), w.shape(), y.shape(), *launch.attrs);
//   g.out[1] == y.shape()[2];  // of two dimensions

#include <array>
#include <cstdint>

#include "ir/attrs.h"
#include "ir/shape.h"

namespace stowage {

inline constexpr int kConvDims = 3;

/// Along one spatial dimension.
struct ConvDim {
  int64_t in = 1, out = 1, kernel = 1;
  int64_t stride = 1, dilation = 1;
  int64_t before = 0;  // zeros in front of x
};

struct ConvGeometry {
  /// Precondition: an op's `infer` has accepted these shapes and attributes.
  ConvGeometry(const Shape& x, const Shape& w, const Shape& y,
               const Attrs& attrs);

  /// Elements of one channel of x, of w, of y.
  int64_t in_size() const { return Product(&ConvDim::in); }
  int64_t kernel_size() const { return Product(&ConvDim::kernel); }
  int64_t out_size() const { return Product(&ConvDim::out); }

  int64_t images, groups;
  int64_t channels, filters;  // of one group: of x, of y
  std::array<ConvDim, kConvDims> dims;

 private:
  int64_t Product(int64_t ConvDim::*size) const {
    int64_t product = 1;
    for (const ConvDim& dim : dims) product *= dim.*size;
    return product;
  }
};

}  // namespace stowage

#endif  // STOWAGE_IR_CONV_GEOMETRY_H_
