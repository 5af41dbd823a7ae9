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

}  // namespace stowage
