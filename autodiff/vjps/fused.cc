#include "autodiff/vjp.h"

namespace stowage {

STOWAGE_NON_DIFFERENTIABLE(FusedElementwise,
                           "steps are fused when they are complete; "
                           "differentiate the graph of its parts");
STOWAGE_NON_DIFFERENTIABLE(FusedMatMul,
                           "steps are fused when they are complete; "
                           "differentiate the graph of its parts");

}  // namespace stowage
