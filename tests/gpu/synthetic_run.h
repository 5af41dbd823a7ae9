#ifndef STOWAGE_TESTS_GPU_SYNTHETIC_RUN_H_
#define STOWAGE_TESTS_GPU_SYNTHETIC_RUN_H_

// Training steps of the built-in models on synthetic batches, and the results of such runs.
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

/// The training step with AdamW, with the constants that the model starts from.
Result<Graph> BuildSyntheticStep(const SyntheticStep& spec);

/// Inputs of a training step. Integers are below a limit, floats in [0, 1), the
/// learning rate is 1e-3; batch k is a function of k alone, and step s takes
/// batch s % batches.
class SyntheticInputs {
 public:
  SyntheticInputs(const Graph& step, int64_t limit, int64_t batches);

  /// Writes the inputs of `step`, which counts from 1. Allocates nothing.
  Status Write(Runner& train, int64_t step) const;

 private:
  struct Input {
    std::string name;
    bool counts = false;  // the step's number
    std::vector<std::vector<float>> floats = {};
    std::vector<std::vector<int32_t>> integers = {};
  };
  int64_t batches_;
  std::vector<Input> inputs_;
};

struct StepsOptions {
  PlanOptions planning = {};  // workspace and reserve are the backend's
  bool poison = false;
  uint64_t ahead = 0;  // steps that are started before a loss is read
};

/// The loss of every step, and every param and state after the last.
struct Outcome {
  std::vector<float> losses;
  std::map<std::string, std::vector<std::byte>> persistent;
};

/// Plans `step` for `backend` and runs `steps` steps.
Result<Outcome> RunSteps(const Graph& step, const SyntheticInputs& inputs,
                         int64_t steps, Backend& backend,
                         const StepsOptions& options = {});

/// The differences of two runs, "loss 3, h.0.ln_1.weight, ...", or "".
std::string Differences(const Outcome& a, const Outcome& b);

/// The largest difference of a loss, relative to b's; NaN if any is.
double LossDifference(const Outcome& a, const Outcome& b);

/// The norm of the difference of all f32 params, relative to b's norm.
double ParamsDifference(const Graph& step, const Outcome& a, const Outcome& b);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_SYNTHETIC_RUN_H_
