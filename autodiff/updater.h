#ifndef STOWAGE_AUTODIFF_UPDATER_H_
#define STOWAGE_AUTODIFF_UPDATER_H_

// Emits what a training step does to its params, each as soon as its gradient is
// there.
//
//   Updater updater(options, &g);
//   updater.DeclareInputs();
//   ... forward and backward, from updater.Seed() ...
//   if (UpdatesWait(options)) updater.Await(gradients);
//   updater.Update(param, gradient);

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/linker.h"
#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "ir/builder.h"
#include "ir/tensor_type.h"

namespace stowage {

// The loss scale of a training step as nodes: a state that the gradient of the loss
// begins with, that updates divide by, and that moves when all gradients are known.
//
//   LossScaler scaler(*options.loss_scaling, &g);
//   linker.WireUp(scaler.Seed(1));
//   ... backward, and `good`, whether all gradients are finite ...
//   Value factor = scaler.Inverse();  // of gradients, in updates
//   Value step = scaler.UpdatesUpTo(g.Input("step", DType::kI64, {}));
//   scaler.Settle(good);

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

/// Emits the updates of params in a training step.
class Updater {
 public:
  /// Both must outlive this.
  Updater(const TrainOptions& options, GraphBuilder* g)
      : options_(options), g_(*g) {}

  /// Declares what updates read beside gradients: "lr", "step", and "seed" where the
  /// optimizer reads one, or takes those that the model has; and the states of a loss
  /// scale.
  void DeclareInputs();

  /// What the gradient of a loss begins as that counts for `weight`.
  LossGradient Seed(double weight = 1) const;

  /// Updates `param` by `gradient`, of its shape.
  void Update(Value param, Value gradient);
  /// Updates a block of a param by as much of its gradient.
  void Update(const ParamBlock& which, Value block, Value gradient);

  /// Has the updates to come scale their gradients, so that the norm of all is at most
  /// options.clip_norm, and without the loss scale; and update nothing if that norm is
  /// not finite and there is loss scaling. For options that UpdatesWait.
  void Await(const std::vector<Value>& gradients);
  /// The same, given the sum of squares of each gradient, f32 scalars, which are added up
  /// in this order.
  void AwaitSquares(const std::vector<Value>& squares);

  /// Makes outputs of the gradients, given by param, that options.gradients asks for,
  /// without the loss scale.
  void GiveOut(const std::map<std::string, Value>& gradients);

 private:
  Value ScaledRate(double scale);
  /// Moves the average of `block`, which an update before has made anew.
  void Average(Value block);
  /// How far averages in that type move in this step.
  Value AverageWeight(DType dtype);

  const TrainOptions& options_;
  GraphBuilder& g_;
  UpdateInputs inputs_;
  std::optional<LossScaler> scaler_;
  std::map<double, Value> scaled_rates_;  // by scale
  Value is_first_average_ = {};           // bool scalar
  std::map<DType, Value> average_weights_;
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_UPDATER_H_
