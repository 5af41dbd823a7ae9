#ifndef STOWAGE_TESTS_SUPPORT_INTERPRET_CONVOLUTION_H_
#define STOWAGE_TESTS_SUPPORT_INTERPRET_CONVOLUTION_H_

// The oracle of the convolution ops (tests/support/interpret.h): every term of
// ir/conv_geometry.h's formula, one by one.

#include <vector>

#include "ir/graph.h"
#include "ir/shape.h"

namespace stowage {

/// A tensor: shape and elements in row-major order.
struct TensorOf {
  const Shape& shape;
  const std::vector<double>& data;
};

/// The result of a convolution op with operands a and b, of this shape.
std::vector<double> InterpretConvolution(const Node& node, const TensorOf& a,
                                         const TensorOf& b,
                                         const Shape& result);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_INTERPRET_CONVOLUTION_H_
