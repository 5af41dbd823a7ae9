#include "autodiff/vjp.h"
#include "ir/ops.h"

namespace stowage {

// The sums of squares are computed again: they would be as large as x, which has to be
// there for the gradient anyway.
constinit const Vjp LocalResponseNormVjp = Differentiable([](VjpContext& v) {
  v.Contribute(0, Apply(OpKind::kLocalResponseNormGrad,
                        {v.input(0), v.cotangent()}, v.attrs()));
});

STOWAGE_NON_DIFFERENTIABLE(LocalResponseNormGrad,
                           "second derivatives are not provided");

}  // namespace stowage
