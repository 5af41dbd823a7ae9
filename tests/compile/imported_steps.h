#ifndef STOWAGE_TESTS_COMPILE_IMPORTED_STEPS_H_
#define STOWAGE_TESTS_COMPILE_IMPORTED_STEPS_H_

// Plans training steps for compilation to C, of models with pretrained weights. Frozen weights are
// constants of the C file.

#include <cstdint>
#include <map>
#include <string>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "planner/fit/fit.h"
#include "train/step_builder.h"

namespace stowage::testing {

/// Plans a step without memory optimizations. Params that have `contents` and are not updated are
/// placed outside the arena.
Result<FittedStep> PlanBesideConstants(
    const ModelFn& model, int64_t batch, const TrainOptions& training,
    const std::map<std::string, std::string>& contents);

struct AdaptersStep {
  FittedStep step;
  std::map<std::string, std::string> contents;  // base weights, by name
};

/// Plans a step that trains low-rank adapters with AdamW on one sequence of `seq` tokens. The base
/// model is a GGUF file, whose quantized matrices stay quantized.
Result<AdaptersStep> PlanAdapters(const std::string& gguf, int64_t seq);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_COMPILE_IMPORTED_STEPS_H_
