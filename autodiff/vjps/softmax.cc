#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp SoftmaxVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, SoftmaxGrad(v.output(), v.cotangent()));
});

constinit const Vjp LogSoftmaxVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, LogSoftmaxGrad(v.output(), v.cotangent()));
});

STOWAGE_NON_DIFFERENTIABLE(SoftmaxGrad, "second derivatives are not provided");
STOWAGE_NON_DIFFERENTIABLE(LogSoftmaxGrad,
                           "second derivatives are not provided");

}  // namespace stowage
