#ifndef STOWAGE_TOOLS_MODEL_FLAGS_H_
#define STOWAGE_TOOLS_MODEL_FLAGS_H_

// The options that say which training step is meant, shared by `plan` and
// `train`.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "autodiff/optimizer.h"
#include "base/result.h"
#include "ir/dtype.h"
#include "nn/models.h"
#include "planner/recompute.h"
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

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_MODEL_FLAGS_H_
