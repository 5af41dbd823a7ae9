#ifndef STOWAGE_TESTS_GPU_SYNTHETIC_RUN_H_
#define STOWAGE_TESTS_GPU_SYNTHETIC_RUN_H_

// Runs training steps of the built-in models on synthetic batches, and compares the results of two
// runs.
//
//   Result<Graph> step = BuildSyntheticStep({.model = "gpt-nano"});
//   SyntheticInputs inputs(*step, /*limit=*/96, /*batches=*/20);
//   Result<Outcome> outcome = RunSteps(*step, inputs, 20, *backend);

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "nn/model_options.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"

namespace stowage::testing {

struct SyntheticStep {
  std::string model;
  ModelOptions options = {};
  std::optional<double> clip_norm = {};
};

/// Returns a training step of the model with AdamW. The graph contains the model's constants.
Result<Graph> BuildSyntheticStep(const SyntheticStep& spec);

/// The inputs of a training step. Integers are in [0, limit), floats are in [0, 1), and the
/// learning rate is 1e-3. The content of batch k depends only on k, and step s reads batch
/// s % batches.
class SyntheticInputs {
 public:
  SyntheticInputs(const Graph& step, int64_t limit, int64_t batches);

  /// Writes the inputs of step number `step`, counted from 1. Does not allocate.
  Status Write(Runner& train, int64_t step) const;

 private:
  struct Input {
    std::string name;
    bool counts = false;  // it holds the number of the step
    std::vector<std::vector<float>> floats = {};
    std::vector<std::vector<int32_t>> integers = {};
  };
  int64_t batches_;
  std::vector<Input> inputs_;
};

struct StepsOptions {
  PlanOptions planning = {};  // an empty `device` means backend.Needs()
  bool poison = false;
  uint64_t ahead = 0;  // steps started before the loss of a step is read
};

/// The loss of every step, and the params and states after the last step.
struct Outcome {
  std::vector<float> losses;
  std::map<std::string, std::vector<std::byte>> persistent;
};

/// Plans `step` for `backend`, runs `steps` steps, and returns the losses and final values.
Result<Outcome> RunSteps(const Graph& step, const SyntheticInputs& inputs,
                         int64_t steps, Backend& backend,
                         const StepsOptions& options = {});

/// Returns the names of the values that differ between two runs, for example
/// "loss 3, h.0.ln_1.weight and 5 more", or "" if the runs are equal.
std::string Differences(const Outcome& a, const Outcome& b);

/// Returns the largest relative difference of a loss between `a` and `b`. Returns NaN if a
/// difference is NaN or the numbers of losses differ.
double LossDifference(const Outcome& a, const Outcome& b);

/// Returns the norm of the difference of all f32 params, divided by their norm in `b`.
double ParamsDifference(const Graph& step, const Outcome& a, const Outcome& b);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_SYNTHETIC_RUN_H_
