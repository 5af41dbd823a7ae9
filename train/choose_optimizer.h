#ifndef STOWAGE_TRAIN_CHOOSE_OPTIMIZER_H_
#define STOWAGE_TRAIN_CHOOSE_OPTIMIZER_H_

// The optimizer that is meant by a name, for a model that has settings of its own.
//
//   Result<ModelInfo> info = FindModel("gpt-nano");
//   Result<Optimizer> optimizer = ChooseOptimizer("", info->training);

#include <optional>
#include <string_view>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "nn/models.h"

namespace stowage {

/// Whether it is the model's own optimizer, in whatever it keeps its states: then the
/// model's settings and learning rate are for it.
bool IsOfModel(const Optimizer& optimizer, const TrainingDefaults& defaults);

/// The optimizer called `name`, or the model's where that is empty; with the model's own
/// settings when it is the model's (IsOfModel), else with its own. Error: no optimizer is so called.
Result<Optimizer> ChooseOptimizer(std::string_view name,
                                  const TrainingDefaults& defaults);

/// `optimizer` with these instead of its own. As torch.optim.SGD has it, Sgd with a
/// momentum above 0 is Momentum. Errors, kInvalidArgument, name the value: a momentum
/// outside [0, 1), or for an optimizer that has none; a decay that is negative or not
/// finite.
Result<Optimizer> WithMomentum(Optimizer optimizer, double momentum);
Result<Optimizer> WithDecay(Optimizer optimizer, double decay);

/// The decay and, where it has one, the momentum of an optimizer.
double DecayOf(const Optimizer& optimizer);
std::optional<double> MomentumOf(const Optimizer& optimizer);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_CHOOSE_OPTIMIZER_H_
