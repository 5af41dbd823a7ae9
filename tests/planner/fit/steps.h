#ifndef STOWAGE_TESTS_PLANNER_FIT_STEPS_H_
#define STOWAGE_TESTS_PLANNER_FIT_STEPS_H_

// Training steps for tests of memory optimizations: of models by name, of a tiny GPT, and in
// micro-batches.
//
//   StepFitter fitter(StepsOf(TinyGpt, /*batch=*/8), {});

#include <cstdint>
#include <functional>
#include <string_view>

#include "autodiff/train_step.h"
#include "ir/graph.h"
#include "nn/model_options.h"
#include "planner/fit/micro_batches/micro_batches.h"

namespace stowage::testing {

/// The step of a model that the command line knows.
Graph StepOf(std::string_view model, const ModelOptions& options);

/// A GPT of two layers of width 16, for training on sequences of 64.
Graph TinyGpt(int64_t batch);

/// A net of random layers whose examples are independent: wide and narrow layers, norms, and
/// residual sums.
Graph RandomNet(uint64_t seed, int64_t batch);

/// Steps of a model on `batch` examples, in micro-batches of sizes that differ by at most one.
StepBuilder StepsOf(std::function<Graph(int64_t batch)> model, int64_t batch,
                    const TrainOptions& options = {});

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_PLANNER_FIT_STEPS_H_
