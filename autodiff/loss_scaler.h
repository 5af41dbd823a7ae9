#ifndef STOWAGE_AUTODIFF_LOSS_SCALER_H_
#define STOWAGE_AUTODIFF_LOSS_SCALER_H_

// The loss scale of a training step as nodes: a state that the gradient of the loss
// begins with, that updates divide by, and that moves when all gradients are known.
//
//   LossScaler scaler(*options.loss_scaling, &g);
//   linker.WireUp(scaler.Seed(1));
//   ... backward, and `good`, whether all gradients are finite ...
//   Value factor = scaler.Inverse();  // of gradients, in updates
//   Value step = scaler.UpdatesUpTo(g.Input("step", DType::kI64, {}));
//   scaler.Settle(good);

#include "autodiff/linker.h"
#include "autodiff/loss_scaling.h"
#include "ir/builder.h"

namespace stowage {

/// What a training step does about its loss scale. It has the states "loss_scale", f32,
/// and "loss_scale.good_steps", i64, of those in a row, if the scale is dynamic; and
/// "loss_scale.skipped", i64, how many steps have been. Its outputs are "update_skipped",
/// an f32 that is 1 or 0, and "new:loss_scale", if the scale is dynamic.
class LossScaler {
 public:
  /// Declares the states. Both must outlive this.
  LossScaler(const LossScaling& scaling, GraphBuilder* g);

  /// What the gradient of a loss begins as that counts for `weight`.
  LossGradient Seed(double weight) const;
  /// 1 / scale, an f32 scalar.
  Value Inverse();
  /// How many updates there have been with this one, where `step` counts steps: moments
  /// that were not moved are not corrected for it.
  Value UpdatesUpTo(Value step);

  /// Emits what becomes of the states, where `good`, a bool scalar, says whether all
  /// gradients are finite. What reads the states must be there.
  void Settle(Value good);

 private:
  void MoveScale(Value good);

  const LossScaling& scaling_;
  GraphBuilder& g_;
  Value scale_ = {}, good_steps_ = {};  // if it is dynamic
  Value skipped_;
  Value inverse_ = {};
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_LOSS_SCALER_H_
