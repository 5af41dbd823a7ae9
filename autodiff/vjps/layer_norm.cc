#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp LayerNormVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1) || v.has_cotangent(2)) {
    return v.Refuse("only its result is differentiable, not mean and rstd");
  }
  const LayerNormGrads grads = LayerNormGrad(
      v.input(0), v.input(1), v.output(1), v.output(2), v.cotangent());
  v.Contribute(0, grads.dx);
  v.Contribute(1, grads.dgamma);
  v.Contribute(2, grads.dbeta);
});

STOWAGE_NON_DIFFERENTIABLE(LayerNormGrad,
                           "second derivatives are not provided");
STOWAGE_NON_DIFFERENTIABLE(LayerNormGradAdd,
                           "second derivatives are not provided");

}  // namespace stowage
