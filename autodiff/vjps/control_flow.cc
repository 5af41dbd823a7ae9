#include "autodiff/vjp.h"

namespace stowage {

STOWAGE_NON_DIFFERENTIABLE(Loop, "loops cannot be differentiated; unroll it");
STOWAGE_NON_DIFFERENTIABLE(Cond, "branches cannot be differentiated; use where");

}  // namespace stowage
