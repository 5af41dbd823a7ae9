#include "autodiff/vjp.h"

namespace stowage {

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

}  // namespace stowage
