#include "autodiff/vjp.h"
#include "ir/attrs.h"
#include "ir/ops.h"

namespace stowage {
namespace {

ConvOptions OptionsOf(const Attrs& attrs) {
  return {.stride = attrs.Ints("stride"),
          .padding = attrs.Ints("padding"),
          .dilation = attrs.Ints("dilation"),
          .groups = attrs.Int("groups")};
}

// All but the first two dimensions.
Axes Spatial(const Shape& shape) {
  const auto dims = shape.span().subspan(2);
  return Axes(dims.begin(), dims.end());
}

}  // namespace

// The gradient to w comes first: x may die before its gradient, of its size, is
// born.
constinit const Vjp ConvVjp = Differentiable([](VjpContext& v) {
  const ConvOptions options = OptionsOf(v.attrs());
  const Value dy = v.cotangent();
  if (v.needs(1)) {
    v.Contribute(
        1, ConvWeightGrad(v.input(0), dy, Spatial(v.input_shape(1)), options));
  }
  if (!v.needs(0)) return;
  v.Contribute(0, ConvTranspose(dy, v.input(1),
                                {.stride = options.stride,
                                 .padding = options.padding,
                                 .dilation = options.dilation,
                                 .groups = options.groups,
                                 .size = Spatial(v.input_shape(0))}));
});

// y = conv_transpose(x, w) is the x of a convolution by w whose y is x.
constinit const Vjp ConvTransposeVjp = Differentiable([](VjpContext& v) {
  const ConvOptions options = OptionsOf(v.attrs());
  const Value dy = v.cotangent();
  if (v.needs(1)) {
    v.Contribute(
        1, ConvWeightGrad(dy, v.input(0), Spatial(v.input_shape(1)), options));
  }
  if (v.needs(0)) v.Contribute(0, Conv(dy, v.input(1), options));
});

STOWAGE_NON_DIFFERENTIABLE(ConvWeightGrad,
                           "second derivatives are not provided");

}  // namespace stowage
