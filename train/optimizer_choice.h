#ifndef STOWAGE_TRAIN_OPTIMIZER_CHOICE_H_
#define STOWAGE_TRAIN_OPTIMIZER_CHOICE_H_

// Selects optimizers and loss scaling by name, with the defaults of a model.
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

/// Returns whether `optimizer` is the model's default optimizer, regardless of the type of its
/// states. If so, the model's default settings and learning rate apply to it.
bool IsOfModel(const Optimizer& optimizer, const TrainingDefaults& defaults);

/// Returns the optimizer named `name`, or the model's default optimizer if `name` is empty. The
/// default optimizer has the model's settings (IsOfModel), and others have their own defaults.
/// Returns kInvalidArgument if the name is unknown.
Result<Optimizer> ChooseOptimizer(std::string_view name,
                                  const TrainingDefaults& defaults);

/// Return `optimizer` with this setting. As in torch.optim.SGD, Sgd with a momentum above 0 becomes
/// Momentum. Return kInvalidArgument, with the value, if the momentum is outside [0, 1), the
/// optimizer has no momentum, or the decay is negative or not finite.
Result<Optimizer> WithMomentum(Optimizer optimizer, double momentum);
Result<Optimizer> WithDecay(Optimizer optimizer, double decay);

/// Return the weight decay of an optimizer, and its momentum, or nullopt if it has none.
double DecayOf(const Optimizer& optimizer);
std::optional<double> MomentumOf(const Optimizer& optimizer);

/// Returns the loss scaling that `text` describes: "dynamic", "none" or a number. If `text` is "",
/// loss scaling is dynamic for f16, whose smallest numbers exceed many gradients, and absent for
/// other types. Returns kInvalidArgument for any other string and for an invalid scale.
Result<std::optional<LossScaling>> ChooseLossScaling(std::string_view text,
                                                     DType dtype);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_OPTIMIZER_CHOICE_H_
