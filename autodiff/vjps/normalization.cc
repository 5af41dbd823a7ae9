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

// The sums of squares are computed again: they would be as large as x, which has to be
// there for the gradient anyway.
constinit const Vjp LocalResponseNormVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Apply(OpKind::kLocalResponseNormGrad,
                        {v.input(0), v.cotangent()}, v.attrs()));
});

STOWAGE_NON_DIFFERENTIABLE(LocalResponseNormGrad,
                           "second derivatives are not provided");

}  // namespace stowage
