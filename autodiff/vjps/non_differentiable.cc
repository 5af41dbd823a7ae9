// The families without a gradient: a graph is differentiated before ranks join its step,
// before the updates of its params are added, and before its nodes are fused.

#include "autodiff/vjp.h"

namespace stowage {

STOWAGE_NON_DIFFERENTIABLE(AllReduce, "ranks join after differentiation");
STOWAGE_NON_DIFFERENTIABLE(ReduceScatter, "ranks join after differentiation");
STOWAGE_NON_DIFFERENTIABLE(AllGather, "ranks join after differentiation");
STOWAGE_NON_DIFFERENTIABLE(AllGatherUpdate, "it overwrites what it reads");
STOWAGE_NON_DIFFERENTIABLE(OwnBlock, "ranks join after differentiation");

STOWAGE_NON_DIFFERENTIABLE(FusedElementwise,
                           "steps are fused when they are complete; "
                           "differentiate the graph of its parts");
STOWAGE_NON_DIFFERENTIABLE(FusedMatMul,
                           "steps are fused when they are complete; "
                           "differentiate the graph of its parts");

#define STOWAGE_UPDATE(kind) \
  STOWAGE_NON_DIFFERENTIABLE(kind, "it overwrites what it reads")
STOWAGE_UPDATE(SgdUpdate);
STOWAGE_UPDATE(MomentumUpdate);
STOWAGE_UPDATE(NesterovUpdate);
STOWAGE_UPDATE(RmsPropUpdate);
STOWAGE_UPDATE(AdagradUpdate);
STOWAGE_UPDATE(AdamUpdate);
STOWAGE_UPDATE(AdamWUpdate);
STOWAGE_UPDATE(AdamWSplitUpdate);
STOWAGE_UPDATE(AdamWBf16Update);
STOWAGE_UPDATE(AdamWBf16SplitUpdate);
STOWAGE_UPDATE(AdamW8BitUpdate);
STOWAGE_UPDATE(AdamW8BitSplitUpdate);
STOWAGE_UPDATE(MomentumBf16Update);
STOWAGE_UPDATE(MomentumBf16SplitUpdate);

}  // namespace stowage
