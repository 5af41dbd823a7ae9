#ifndef STOWAGE_TOOLS_MODEL_FLAGS_H_
#define STOWAGE_TOOLS_MODEL_FLAGS_H_

// The options that say which training step is meant, shared by the
// commands that plan and run steps.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "data/image_data.h"
#include "formats/array.h"
#include "ir/tensor_type.h"
#include "nn/lora.h"
#include "nn/models.h"
#include "onnx/onnx.h"
#include "planner/fit/cost.h"
#include "planner/fit/memory_optimizations.h"
#include "text/text.h"
#include "tools/flags.h"
#include "tools/options.h"
#include "train/evaluation.h"
#include "train/training.h"

namespace stowage::tools {

struct Tuning;  // tools/tuning.h

struct ModelFlags {
  std::string model;
  std::optional<int64_t> batch, seq;
  std::string dtype = "f32";
  std::string optimizer;   // empty: the model's
  std::string loss_scale;  // empty: dynamic for f16, else none
  OptimizationFlags optimization;
  std::string budget;  // empty: none
  int threads = 0;     // 0: one per hardware thread
  std::vector<std::string> recompute_keep, recompute_always;  // names of values
  std::string op_times;       // a file; empty: none
  std::string fit;            // empty: auto with a budget and no choice below
  std::string micro_batches;  // empty: as `fit` has it
  bool allow_batch_change = false;
  /// Choices, by OptimizationInfo::name; empty: as `fit` has it.
  std::map<std::string, std::string> optimizations;
  std::string plan_cache;  // a folder; empty: the usual one
  bool no_plan_cache = false;
  std::optional<int64_t> lora_rank;  // absent: no adapters
  std::optional<double> lora_alpha;
  std::vector<std::string> lora_targets;
};

/// What a command that runs steps has beside.
struct RunFlags {
  ModelFlags model;
  std::string data;       // a file
  std::string tokenizer;  // of a model of text; empty: the usual one
  std::string device = "auto";
  int64_t seed = 1;
  std::string offload_dir;  // empty: the system's folder of temporary files
};

/// Declares the options; --model is left to the caller.
void AddModelOptions(Options& options, ModelFlags* flags);

/// Those of AddModelOptions and AddLoraOptions that say how a model is trained.
std::vector<std::string> OptionsOfTraining();

/// Declares those of adapters beside a model's own layers.
void AddLoraOptions(Options& options, ModelFlags* flags);

/// The adapters that the flags want beside a model's layers; absent where they want
/// none. Error kInvalidArgument: targets or an alpha, and no rank.
Result<std::optional<LoraRules>> ReadLora(const ModelFlags& flags);

/// `model` with these adapters, if any.
ModelFn WithAdapters(ModelFn model, const std::optional<LoraRules>& lora);

/// Declares these and those of the model, with --model and --data required.
void AddRunOptions(Options& options, RunFlags* flags);
/// Declares those of the model, of the device and of the seed alone.
void AddStepOptions(Options& options, RunFlags* flags);

/// The optimizations that the flags allow, for a step of `batch` examples; absent where a
/// graph is planned as it is. Errors, kInvalidArgument: no such choice; names of
/// values where nothing may run again; micro-batches of a graph, or more micro-batches than
/// examples.
Result<MemoryOptimizations> ReadOptimizations(const ModelFlags& flags,
                                              std::optional<int64_t> batch);

/// The times that --op-times names; absent without it. Errors: those of ReadFile
/// and of OpTimes::Parse.
Result<std::optional<OpTimes>> ReadOpTimes(const ModelFlags& flags);

/// The cache that the flags mean; absent where they want none.
std::optional<PlanCache> ReadPlanCache(const ModelFlags& flags);
/// The folder of a cache, where choices by measurement are kept, too; empty without a cache.
std::string FolderOf(const std::optional<PlanCache>& cache);

/// A step as the flags say, checked.
struct StepSpec {
  ModelInfo info;
  ModelOptions options;                // batch and seq filled in
  TrainingSpec training;               // without programs beside the step
  std::optional<LoraRules> lora = {};  // beside a model's own layers
  /// What --data has, where the model's sizes depend on it.
  std::shared_ptr<const ImageData> images;
  /// Metrics that evaluations count by class, and the classes.
  std::vector<Metric> metrics = {};
  int64_t classes = 0;
  /// Where the model is an ONNX file's: it, with whose weights a run begins, its graph
  /// that judges, and the examples for its inputs.
  std::shared_ptr<const OnnxModel> onnx = {};
  ModelFn onnx_evaluation = {};
  std::shared_ptr<const std::vector<NamedArray>> arrays = {};
  /// Where a model of text by name reads tokens, not characters: what makes them.
  std::shared_ptr<const Tokenizer> tokenizer = {};
  /// Where a published model is fine-tuned: it, and all that belongs to it.
  std::shared_ptr<const Tuning> tuning = {};
};

/// The loss scaling that the flags mean; absent where they want none. Errors: a type or
/// a scale that is none.
Result<std::optional<LossScaling>> ReadLossScale(const ModelFlags& flags);

/// What the flags say of a step of any model, for as many examples: optimizer, with the
/// defaults for it where it is the model's, budget, optimizations, plan cache; all but
/// SetNoDecay, which wants the model. Errors name the option.
Result<TrainingSpec> ReadTrainingFlags(const ModelFlags& flags,
                                       const TrainingDefaults& defaults,
                                       int64_t batch);

/// Checks what the flags can say and this version cannot do. Errors name the
/// option.
Result<StepSpec> ReadModelFlags(const ModelFlags& flags);
/// The same of a step over the data, and over the tokens of a tokenizer, if one is given:
/// a model of characters has as many then, of any other it may have no more. Errors:
/// ImageData's and ReadTokenizer's besides.
Result<StepSpec> ReadRunFlags(const RunFlags& flags);

/// The model's graph for a purpose, for as many examples as are asked for.
ModelFn ModelOf(const StepSpec& spec, ModelPurpose purpose);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_MODEL_FLAGS_H_
