#include "autodiff/vjp.h"

namespace stowage {

STOWAGE_NON_DIFFERENTIABLE(SumPartials, "second derivatives are not provided");

}  // namespace stowage
