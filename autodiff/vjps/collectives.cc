#include "autodiff/vjp.h"

namespace stowage {

// A graph is differentiated first; which rank has what is decided for its step.
STOWAGE_NON_DIFFERENTIABLE(AllReduce, "ranks join after differentiation");
STOWAGE_NON_DIFFERENTIABLE(ReduceScatter, "ranks join after differentiation");
STOWAGE_NON_DIFFERENTIABLE(AllGather, "ranks join after differentiation");
STOWAGE_NON_DIFFERENTIABLE(AllGatherUpdate, "it overwrites what it reads");
STOWAGE_NON_DIFFERENTIABLE(OwnBlock, "ranks join after differentiation");

}  // namespace stowage
