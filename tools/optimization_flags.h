#ifndef STOWAGE_TOOLS_OPTIMIZATION_FLAGS_H_
#define STOWAGE_TOOLS_OPTIMIZATION_FLAGS_H_

// The options that say how a training step updates its params, beside the optimizer's
// name: clipping, weight decay, momentum and label smoothing. They are part of the step, so that commands
// that plan or time it have them, too.

#include <optional>
#include <string>
#include <vector>

#include "autodiff/train_options.h"
#include "base/result.h"
#include "tools/options.h"
#include "train/step_builder.h"
#include "train/training.h"

namespace stowage::tools {

struct OptimizationFlags {
  std::optional<double> clip_norm, weight_decay, momentum, label_smoothing;
  std::vector<std::string> no_decay;  // patterns
};

void AddOptimizationOptions(Options& options, OptimizationFlags* flags);

/// Sets what the flags say of all params, over an optimizer that has its defaults.
/// Errors, kInvalidArgument, name the option: a value out of range, a momentum for an
/// optimizer that has none.
Status SetOptimization(const OptimizationFlags& flags, TrainOptions* options);

/// `model`, with --label-smoothing in its loss. Its graphs' errors: those of
/// WithLabelSmoothing besides.
ModelFn WithSmoothing(const OptimizationFlags& flags, ModelFn model);

/// Takes the decay from the params that --no-decay names, once the model and the groups
/// of `training` are set. Errors: those of its model and of WithoutDecay; patterns where
/// the optimizer decays nothing.
Status SetNoDecay(const OptimizationFlags& flags, TrainingSpec* training);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_OPTIMIZATION_FLAGS_H_
