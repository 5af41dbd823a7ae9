#ifndef STOWAGE_TRAIN_CHOOSE_OPTIMIZER_H_
#define STOWAGE_TRAIN_CHOOSE_OPTIMIZER_H_

// The optimizer that is meant by a name, for a model that has settings of its own.
//
//   Result<ModelInfo> info = FindModel("gpt-nano");
//   Result<Optimizer> optimizer = ChooseOptimizer("", info->training);

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

}  // namespace stowage

#endif  // STOWAGE_TRAIN_CHOOSE_OPTIMIZER_H_
