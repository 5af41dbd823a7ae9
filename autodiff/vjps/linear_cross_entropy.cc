#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

// Nothing of forward but the operands: the logits are made again, or, in a
// training step, there for the first time (train_step.h).
constinit const Vjp LinearCrossEntropyVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1)) {
    return v.Refuse("only its loss is differentiable, not its log-sum-exp");
  }
  const LinearCrossEntropyGrads grads =
      LinearCrossEntropyGrad(v.input(0), v.input(1), v.input(2), v.cotangent(),
                             v.attrs().Int("chunk"));
  v.Contribute(0, grads.dx);
  v.Contribute(1, grads.dw);
});

STOWAGE_NON_DIFFERENTIABLE(LinearCrossEntropyGrad,
                           "second derivatives are not provided");

}  // namespace stowage
