#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp BatchNormVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1) || v.has_cotangent(2)) {
    return v.Refuse("only its result is differentiable, not mean and variance");
  }
  const BatchNormGrads grads =
      BatchNormGrad(v.input(0), v.input(1), v.output(1), v.output(2),
                    v.cotangent(), v.attrs().Float("eps"));
  v.Contribute(0, grads.dx);
  v.Contribute(1, grads.dgamma);
  v.Contribute(2, grads.dbeta);
});

STOWAGE_NON_DIFFERENTIABLE(BatchNormGrad,
                           "second derivatives are not provided");

}  // namespace stowage
