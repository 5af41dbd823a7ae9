#ifndef STOWAGE_TOOLS_MODEL_FLAGS_H_
#define STOWAGE_TOOLS_MODEL_FLAGS_H_

// The options that say which training step is meant, shared by the
// commands that plan and run steps.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "ir/dtype.h"
#include "nn/models.h"
#include "planner/fit/offload/offload_plan.h"
#include "planner/fit/op_times.h"
#include "planner/fit/recompute/recompute.h"
#include "tools/micro_batches.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stowage::tools {

struct ModelFlags {
  std::string model;
  std::optional<int64_t> batch, seq;
  std::string dtype = "f32";
  std::string optimizer;  // empty: the model's
  std::string budget;     // empty: none
  int threads = 0;        // 0: one per hardware thread
  std::string recompute = "none";
  std::vector<std::string> keep, remake;  // names of values
  std::string op_times;                   // a file; empty: none
  std::string micro_batches = "1";
  std::string offload = "none";
};

/// What a command that runs steps has beside.
struct RunFlags {
  ModelFlags model;
  std::string data;  // a file
  std::string device = "auto";
  int64_t seed = 1;
};

/// Declares the options; --model is left to the caller.
void AddModelOptions(CLI::App& command, ModelFlags* flags);

/// Declares these and those of the model, with --model and --data required.
void AddRunOptions(CLI::App& command, RunFlags* flags);

/// The times that --op-times names; absent without it. Errors: those of ReadFile
/// and of OpTimes::Parse.
Result<std::optional<OpTimes>> ReadOpTimes(const ModelFlags& flags);

/// What the flags say of recomputation. Errors: those of ReadOpTimes;
/// kInvalidArgument: no such choice, or names where nothing may be recomputed.
Result<RecomputeOptions> ReadRecomputeFlags(const ModelFlags& flags);

/// A step as the flags say, checked.
struct StepSpec {
  ModelInfo info;
  ModelOptions options;  // batch and seq filled in
  Optimizer optimizer;
  std::optional<Bytes> budget;
  RecomputeOptions recompute;
  MicroBatches micro_batches = 1;
  OffloadChoice offload = OffloadChoice::kNone;
};

/// Checks what the flags can say and this version cannot do. Errors name the
/// option.
Result<StepSpec> ReadModelFlags(const ModelFlags& flags);
Result<StepSpec> ReadRunFlags(const RunFlags& flags);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_MODEL_FLAGS_H_
