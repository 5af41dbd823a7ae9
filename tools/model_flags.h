#ifndef STOWAGE_TOOLS_MODEL_FLAGS_H_
#define STOWAGE_TOOLS_MODEL_FLAGS_H_

// The options that say which training step is meant, shared by `plan` and
// `train`, and the step they mean: its graph, planned over one weight layout.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "nn/models.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/recompute.h"
#include "planner/weight_layout.h"
#include "tools/micro_batches.h"

namespace stowage::tools {

struct ModelFlags {
  std::string model;
  std::optional<int64_t> batch, seq;
  std::string dtype = "f32";
  std::string optimizer;  // empty: the model's
  std::string budget;     // empty: none
  int threads = 0;        // 0: one per hardware thread
  std::string recompute = "none";
  std::string micro_batches = "1";
};

/// Declares the options; --model is left to the caller.
void AddModelOptions(CLI::App& command, ModelFlags* flags);

/// A step as the flags say, checked.
struct StepSpec {
  ModelInfo info;
  ModelOptions options;  // batch and seq filled in
  Optimizer optimizer;
  std::optional<Bytes> budget;
  Recompute recompute = Recompute::kNone;
  MicroBatches micro_batches = 1;
};

/// Checks what the flags can say and this version cannot do. Errors name the
/// option.
Result<StepSpec> ReadModelFlags(const ModelFlags& flags);

struct PlannedStep {
  Graph step;
  Plan plan;
  WeightLayout layout;  // of weights and states, for further programs
  int64_t pieces = 1;   // of the batch
};

/// Builds the training step and plans it, as it is, around the weights as the
/// forward plan laid them out. Where the number of pieces is left open, the
/// budget decides: of 1, 2, 4, ... pieces those that fit it, with the
/// recomputation that is allowed, at the fewest operations; if none does, those
/// that come closest. Error: more pieces than examples.
Result<PlannedStep> PlanStep(const StepSpec& spec, const PlanOptions& options);

/// The smallest arena of the step with its batch in pieces, nothing recomputed.
Result<Bytes> SmallestInPieces(const StepSpec& spec,
                               const PlanOptions& options);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_MODEL_FLAGS_H_
