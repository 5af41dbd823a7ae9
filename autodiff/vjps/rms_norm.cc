#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp RmsNormVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1)) {
    return v.Refuse("only its result is differentiable, not rstd");
  }
  const RmsNormGrads grads =
      RmsNormGrad(v.input(0), v.input(1), v.output(1), v.cotangent());
  v.Contribute(0, grads.dx);
  v.Contribute(1, grads.dgamma);
});

STOWAGE_NON_DIFFERENTIABLE(RmsNormGrad, "second derivatives are not provided");

}  // namespace stowage
