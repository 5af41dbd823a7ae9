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
#include "autodiff/loss_scaler.h"
#include "autodiff/optimizer.h"
#include "autodiff/train_options.h"
#include "ir/builder.h"

namespace stowage {

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

  const TrainOptions& options_;
  GraphBuilder& g_;
  UpdateInputs inputs_;
  std::optional<LossScaler> scaler_;
  std::map<double, Value> scaled_rates_;  // by scale
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_UPDATER_H_
