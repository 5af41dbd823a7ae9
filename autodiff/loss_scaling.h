#ifndef STOWAGE_AUTODIFF_LOSS_SCALING_H_
#define STOWAGE_AUTODIFF_LOSS_SCALING_H_

// Loss scaling, and steps that change nothing.
//
// Many gradients are smaller than the least number of f16, and would be zeros. So the
// gradient of the loss begins as a large number instead of 1, all others are as many
// times larger, and the updates divide them again (Micikevicius et al. 2018, Mixed
// Precision Training). A scale that is too large makes a gradient that is not finite.
// Such a step changes no param and no state of an optimizer, to the bit, and halves the
// scale; many good steps in a row double it. Rule and constants are those of
// torch.amp.GradScaler (torch/amp/grad_scaler.py, and _amp_update_scale_ in
// aten/src/ATen/native/cuda/AmpKernels.cu). All of it is in the step's graph, and the
// scale a state: the host decides nothing and is not asked.
//
//   TrainOptions options{.optimizer = Momentum{}, .loss_scaling = LossScaling{}};
//   ...
//   bool skipped = *step.ReadScalar("update_skipped") != 0;
//   float scale = *step.ReadScalar("new:loss_scale");  // of the next step
//
// LossScaling{.init_scale = 1, .is_dynamic = false} scales nothing, and skips the
// updates of steps whose gradients are not finite, in any type.

#include <cstdint>

#include "base/result.h"

namespace stowage {

struct LossScaling {
  double init_scale = 65536;
  bool is_dynamic = true;  // else it stays, and the rest says nothing
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // good steps in a row, after which it grows
};

/// Error kInvalidArgument: a scale that is not a positive number of f32 whose inverse is
/// one, too; a growth that is not above 1, a backoff that is not between 0 and 1, an
/// interval below 1.
Status CheckLossScaling(const LossScaling& scaling);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_LOSS_SCALING_H_
