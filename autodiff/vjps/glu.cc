#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

constinit const Vjp GluVjp = Differentiable([](VjpContext& v) {
  const auto activation =
      static_cast<GluActivation>(v.attrs().Int("activation"));
  const GluGrads grads =
      GluGrad(v.input(0), v.input(1), v.cotangent(), activation);
  v.Contribute(0, grads.dgate);
  v.Contribute(1, grads.dup);
});

STOWAGE_NON_DIFFERENTIABLE(GluGrad, "second derivatives are not provided");

}  // namespace stowage
