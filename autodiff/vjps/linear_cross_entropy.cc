#include "autodiff/vjp.h"
#include "ir/ops.h"
#include "ir/weight_type.h"

namespace stowage {

// Nothing of forward but the operands: the logits are made again, or, in a
// training step, there for the first time (train_step.h).
constinit const Vjp LinearCrossEntropyVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1)) {
    return v.Refuse("only its loss is differentiable, not its log-sum-exp");
  }
  if (v.num_inputs() > 3 && v.needs(3)) {
    return v.Refuse("the weights of its rows have no gradient");
  }
  LinearCrossEntropyOptions options;
  if (v.num_inputs() > 3) options.weights = v.input(3);
  const int64_t blocks = v.attrs().Int("blocks");
  if (blocks != kNoBlocks) options.blocks = static_cast<WeightType>(blocks);
  const LinearCrossEntropyGrads grads =
      LinearCrossEntropyGrad(v.input(0), v.input(1), v.input(2), v.cotangent(),
                             v.attrs().Int("chunk"), options, v.needs(1));
  v.Contribute(0, grads.dx);
  if (v.needs(1)) v.Contribute(1, grads.dw);
});

STOWAGE_NON_DIFFERENTIABLE(LinearCrossEntropyGrad,
                           "second derivatives are not provided");

}  // namespace stowage
