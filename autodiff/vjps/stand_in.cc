#include "autodiff/vjp.h"

namespace stowage {

STOWAGE_NON_DIFFERENTIABLE(StandIn,
                           "it is an op of which only shapes and cost are "
                           "known; emit its backward nodes as stand_ins too");

}  // namespace stowage
