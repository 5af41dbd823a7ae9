#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp CrossEntropyVjp = Differentiable([](VjpContext& v) {
  if (v.has_cotangent(1)) {
    return v.Refuse("only its loss is differentiable, not its log-sum-exp");
  }
  // logits and labels again, and one number a row from forward
  v.Contribute(
      0, CrossEntropyGrad(v.input(0), v.input(1), v.output(1), v.cotangent()));
});

STOWAGE_NON_DIFFERENTIABLE(CrossEntropyGrad,
                           "second derivatives are not provided");

}  // namespace stowage
