#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

STOWAGE_ZERO_DERIVATIVE(Constant);
STOWAGE_ZERO_DERIVATIVE(Fill);
STOWAGE_ZERO_DERIVATIVE(Iota);

STOWAGE_ZERO_DERIVATIVE(RandomUniform);
STOWAGE_ZERO_DERIVATIVE(RandomNormal);

// The same mask, recomputed from the same seed, step and id.
constinit const Vjp DropoutVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Dropout(v.cotangent(), v.input(1), v.input(2),
                          v.attrs().Float("p"), v.attrs().Int("id")));
});

}  // namespace stowage
