#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp AttentionVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1)) {
    return v.Refuse("only its result is differentiable, not its log-sum-exp");
  }
  AttentionOptions options = {.scale = v.attrs().Float("scale"),
                              .causal = v.attrs().Int("causal") == 1,
                              .window = v.attrs().Int("window")};
  if (v.num_inputs() > 3) options.key_lengths = v.input(3);
  const AttentionGrads grads =
      AttentionGrad(v.input(0), v.input(1), v.input(2), v.output(0),
                    v.output(1), v.cotangent(), options);
  v.Contribute(0, grads.dq);
  v.Contribute(1, grads.dk);
  v.Contribute(2, grads.dv);
});

STOWAGE_NON_DIFFERENTIABLE(AttentionGrad,
                           "second derivatives are not provided");

}  // namespace stowage
