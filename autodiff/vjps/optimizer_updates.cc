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
STOWAGE_UPDATE(AdamWBf16Update);
STOWAGE_UPDATE(AdamWBf16SplitUpdate);
STOWAGE_UPDATE(AdamW8BitUpdate);
STOWAGE_UPDATE(AdamW8BitSplitUpdate);
STOWAGE_UPDATE(MomentumBf16Update);
STOWAGE_UPDATE(MomentumBf16SplitUpdate);

}  // namespace stowage
