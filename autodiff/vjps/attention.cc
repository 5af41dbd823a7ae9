#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp CausalAttentionVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1)) {
    return v.Refuse("only its result is differentiable, not its log-sum-exp");
  }
  const CausalAttentionGrads grads =
      CausalAttentionGrad(v.input(0), v.input(1), v.input(2), v.output(0),
                          v.output(1), v.cotangent(), v.attrs().Float("scale"));
  v.Contribute(0, grads.dq);
  v.Contribute(1, grads.dk);
  v.Contribute(2, grads.dv);
});

STOWAGE_NON_DIFFERENTIABLE(CausalAttentionGrad,
                           "second derivatives are not provided");

}  // namespace stowage
