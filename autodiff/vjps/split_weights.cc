#include "autodiff/vjp.h"

namespace stowage {

STOWAGE_NON_DIFFERENTIABLE(JoinWeight, "updates read it");
STOWAGE_NON_DIFFERENTIABLE(SplitUpdate, "it overwrites what it reads");

}  // namespace stowage
