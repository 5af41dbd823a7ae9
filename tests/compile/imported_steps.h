#ifndef STOWAGE_TESTS_COMPILE_IMPORTED_STEPS_H_
#define STOWAGE_TESTS_COMPILE_IMPORTED_STEPS_H_

// Training steps, planned for C, of models that come with weights; frozen ones are constants.

#include <cstdint>
#include <map>
#include <string>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "planner/fit/fit.h"
#include "train/step_builder.h"

namespace stowage::testing {

/// A step without memory optimizations. Those params that have `contents` and are not updated are
/// outside the arena.
Result<FittedStep> PlanBesideConstants(
    const ModelFn& model, int64_t batch, const TrainOptions& training,
    const std::map<std::string, std::string>& contents);

struct AdaptersStep {
  FittedStep step;
  std::map<std::string, std::string> contents;  // of the base, by name
};

/// A step by AdamW of low-rank adapters on one sequence of `seq` tokens, beside the model of a
/// GGUF file, whose quantized matrices stay in their blocks.
Result<AdaptersStep> PlanAdapters(const std::string& gguf, int64_t seq);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_COMPILE_IMPORTED_STEPS_H_
