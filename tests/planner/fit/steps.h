#ifndef STOWAGE_TESTS_PLANNER_FIT_STEPS_H_
#define STOWAGE_TESTS_PLANNER_FIT_STEPS_H_

// Training steps for tests of what makes them fit: of models by name, of a tiny
// GPT, and in micro-batches.
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

/// A net of some random layers, whose examples have nothing to do with one another: wide
/// and narrow ones, norms, sums with what was there before.
Graph RandomNet(uint64_t seed, int64_t batch);

/// Steps of a model on `batch` examples, of micro-batches as equal as can be.
StepBuilder StepsOf(std::function<Graph(int64_t batch)> model, int64_t batch,
                    const TrainOptions& options = {});

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_PLANNER_FIT_STEPS_H_
