#ifndef STOWAGE_TESTS_PLANNER_FIT_STEPS_H_
#define STOWAGE_TESTS_PLANNER_FIT_STEPS_H_

// Builds models and training steps for tests of memory optimizations.
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

/// Returns the training step of a built-in model, given the name that the command line uses.
Graph StepOf(std::string_view model, const ModelOptions& options);

/// Returns the forward graph of a GPT with two layers of width 16, for sequences of 64 tokens.
Graph TinyGpt(int64_t batch);

/// Returns the forward graph of a net with random layers: wide and narrow layers, norms, and
/// residual sums. Its examples are independent.
Graph RandomNet(uint64_t seed, int64_t batch);

/// Returns a builder of training steps of a model on `batch` examples. The sizes of its
/// micro-batches differ by at most one.
StepBuilder StepsOf(std::function<Graph(int64_t batch)> model, int64_t batch,
                    const TrainOptions& options = {});

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_PLANNER_FIT_STEPS_H_
