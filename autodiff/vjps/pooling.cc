#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

// x alone: the largest elements are found again.
constinit const Vjp MaxPoolVjp = Differentiable([](VjpContext& v) {
  v.Contribute(
      0, Apply(OpKind::kMaxPoolGrad, {v.input(0), v.cotangent()}, v.attrs()));
});

constinit const Vjp AvgPoolVjp = Differentiable([](VjpContext& v) {
  const auto shape = v.input_shape(0).span();
  Attrs attrs = {{"shape", Axes(shape.begin(), shape.end())}};
  for (const auto& [name, value] : v.attrs().entries()) attrs.Set(name, value);
  v.Contribute(0, Apply(OpKind::kAvgPoolGrad, {v.cotangent()}, attrs));
});

STOWAGE_NON_DIFFERENTIABLE(MaxPoolGrad, "second derivatives are not provided");
STOWAGE_NON_DIFFERENTIABLE(AvgPoolGrad, "second derivatives are not provided");

constinit const Vjp ResizeVjp = Differentiable([](VjpContext& v) {
  const auto shape = v.input_shape(0).span();
  v.Contribute(0, Apply(OpKind::kResizeGrad, {v.cotangent()},
                        {{"shape", Axes(shape.begin(), shape.end())},
                         {"mode", v.attrs().Int("mode")},
                         {"align_corners", v.attrs().Int("align_corners")}}));
});

STOWAGE_NON_DIFFERENTIABLE(ResizeGrad, "second derivatives are not provided");

}  // namespace stowage
