#ifndef STOWAGE_TRAIN_OPTIMIZER_CHOICE_H_
#define STOWAGE_TRAIN_OPTIMIZER_CHOICE_H_

// Optimizers and loss scaling by name, with the defaults of a model.
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

/// Whether `optimizer` is the model's default, whatever the type of its states: then the
/// model's default settings and learning rate apply to it.
bool IsOfModel(const Optimizer& optimizer, const TrainingDefaults& defaults);

/// The optimizer called `name`, or the model's default if `name` is empty. The default
/// optimizer has the model's settings (IsOfModel), others their own. Error: an unknown name.
Result<Optimizer> ChooseOptimizer(std::string_view name,
                                  const TrainingDefaults& defaults);

/// `optimizer` with this setting. As in torch.optim.SGD, Sgd with a momentum above 0 is
/// Momentum. Errors kInvalidArgument, with the value: a momentum outside [0, 1), or of an
/// optimizer without one; a decay that is negative or not finite.
Result<Optimizer> WithMomentum(Optimizer optimizer, double momentum);
Result<Optimizer> WithDecay(Optimizer optimizer, double decay);

/// The decay of an optimizer, and its momentum if it has one.
double DecayOf(const Optimizer& optimizer);
std::optional<double> MomentumOf(const Optimizer& optimizer);

/// The loss scaling of "dynamic", "none" or a number; of "", dynamic for f16, whose smallest
/// numbers are larger than many gradients, and none for other types. Error kInvalidArgument:
/// another text, or an invalid scale.
Result<std::optional<LossScaling>> ChooseLossScaling(std::string_view text,
                                                     DType dtype);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_OPTIMIZER_CHOICE_H_
