#ifndef STOWAGE_AUTODIFF_UPDATER_H_
#define STOWAGE_AUTODIFF_UPDATER_H_

// Emits what a training step does to its params, each as soon as its gradient is
// there.
//
//   Updater updater(options, &g);
//   updater.DeclareInputs();
//   ... forward and backward ...
//   updater.Update(param, gradient);

#include <map>
#include <string>
#include <vector>

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
  /// optimizer reads one; or takes those that the model has.
  void DeclareInputs();

  /// Updates `param` by `gradient`, of its shape.
  void Update(Value param, Value gradient);
  /// Updates a block of a param by as much of its gradient.
  void Update(const ParamBlock& which, Value block, Value gradient);

  /// Has the updates to come scale their gradients, so that the norm of all is at most
  /// options.clip_norm, which must be there.
  void Clip(const std::vector<Value>& gradients);
  /// The same, given the sum of squares of each gradient.
  void ClipBySquares(const std::vector<Value>& squares);

 private:
  void SetClip(const ClipScale& clip);
  Value ScaledRate(double scale);

  const TrainOptions& options_;
  GraphBuilder& g_;
  UpdateInputs inputs_;
  std::map<double, Value> scaled_rates_;  // by scale
};

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_UPDATER_H_
