#ifndef STOWAGE_TRAIN_OPTIMIZER_CHOICE_H_
#define STOWAGE_TRAIN_OPTIMIZER_CHOICE_H_

// Selects optimizers and loss scaling by name, with the default settings of a built-in model
// (nn/models.h).
//
//   Result<ModelInfo> info = FindModel("gpt-nano");
//   Result<Optimizer> optimizer = ChooseOptimizer("", info->training);
//   ChooseLossScaling("", DType::kF16);      // LossScaling{}, which is dynamic
//   ChooseLossScaling("1024", DType::kF32);  // a fixed scale

#include <optional>
#include <string_view>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/tensor_type.h"
#include "nn/models.h"

namespace stowage {

/// Returns whether `optimizer` is the model's default optimizer, regardless of the data type of its
/// states. If it is, the model's default settings and learning rate suit it.
bool IsOfModel(const Optimizer& optimizer, const TrainingDefaults& defaults);

/// Returns the optimizer named `name` (autodiff/optimizer.h), or the model's default optimizer if
/// `name` is empty. If the result is the model's default optimizer according to IsOfModel, it has
/// the settings in `defaults`. Other optimizers have their own default settings. Returns
/// kInvalidArgument if the name is unknown.
Result<Optimizer> ChooseOptimizer(std::string_view name,
                                  const TrainingDefaults& defaults);

/// WithMomentum and WithDecay return `optimizer` with this momentum or weight decay. Sgd with a
/// momentum above 0 becomes Momentum, as torch.optim.SGD has both. WithMomentum returns
/// kInvalidArgument if the momentum is outside [0, 1), or if the optimizer has no momentum.
/// WithDecay returns kInvalidArgument if the decay is negative or not finite. Errors name the
/// value.
Result<Optimizer> WithMomentum(Optimizer optimizer, double momentum);
Result<Optimizer> WithDecay(Optimizer optimizer, double decay);

/// DecayOf returns the weight decay of `optimizer`. MomentumOf returns its momentum, or nullopt if
/// `optimizer` has no momentum.
double DecayOf(const Optimizer& optimizer);
std::optional<double> MomentumOf(const Optimizer& optimizer);

/// Returns the loss scaling that `text` describes: "dynamic", "none" (nullopt) or a number, which
/// is a fixed scale. If `text` is "", loss scaling is dynamic for f16, because many gradients are
/// below the smallest f16 number, and absent for other types. Returns kInvalidArgument for any
/// other string, and for a scale that CheckLossScaling rejects.
Result<std::optional<LossScaling>> ChooseLossScaling(std::string_view text,
                                                     DType dtype);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_OPTIMIZER_CHOICE_H_
