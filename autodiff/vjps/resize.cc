#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp ResizeVjp = Differentiable([](VjpContext& v) {
  const auto shape = v.input_shape(0).span();
  v.Contribute(0, Apply(OpKind::kResizeGrad, {v.cotangent()},
                        {{"shape", Axes(shape.begin(), shape.end())},
                         {"mode", v.attrs().Int("mode")},
                         {"align_corners", v.attrs().Int("align_corners")}}));
});

STOWAGE_NON_DIFFERENTIABLE(ResizeGrad, "second derivatives are not provided");

}  // namespace stowage
