#ifndef STOWAGE_TOOLS_MODEL_FLAGS_H_
#define STOWAGE_TOOLS_MODEL_FLAGS_H_

// The options that define a training step, shared by the commands that plan and run steps.
//
//   AddRunOptions(options, &flags);
//   Result<StepSpec> spec = ReadRunFlags(flags);

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  std::string optimizer;   // "": the model's
  std::string loss_scale;  // "": dynamic for f16, else none
  OptimizationFlags optimization;
  std::string budget;  // empty: none
  int threads = 0;     // 0: one per hardware thread
  std::vector<std::string> recompute_keep, recompute_always;  // names of values
  std::string op_times;       // a file; "" for none
  std::string fit;            // "": auto with a budget and no choice below
  std::string micro_batches;  // "": as `fit` says
  bool allow_batch_change = false;
  /// Choices by OptimizationInfo::name; "": as `fit` says.
  std::map<std::string, std::string> optimizations;
  std::string plan_cache;  // a folder; empty: the usual one
  bool no_plan_cache = false;
  std::optional<int64_t> lora_rank;  // absent: no adapters
  std::optional<double> lora_alpha;
  std::vector<std::string> lora_targets;
};

/// The options of commands that run steps.
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

/// The names of those of AddModelOptions and AddLoraOptions that concern training.
std::vector<std::string> OptionsOfTraining();

/// Declares the options of adapters.
void AddLoraOptions(Options& options, ModelFlags* flags);

/// The adapters of the flags, if any. Error kInvalidArgument: targets or an alpha without a
/// rank.
Result<std::optional<LoraRules>> ReadLora(const ModelFlags& flags);

/// `model` with these adapters, if any.
ModelFn WithAdapters(ModelFn model, const std::optional<LoraRules>& lora);

/// Declares all options of RunFlags, with --model and --data required.
void AddRunOptions(Options& options, RunFlags* flags);
/// Declares the options of the model, the device and the seed.
void AddStepOptions(Options& options, RunFlags* flags);

/// The memory optimizations that the flags allow for a step of `batch` examples; `batch` is
/// absent for a graph. Errors kInvalidArgument: an unknown choice; names of values without
/// recomputation; micro-batches of a graph, or more of them than examples.
Result<MemoryOptimizations> ReadOptimizations(const ModelFlags& flags,
                                              std::optional<int64_t> batch);

/// The times of --op-times; absent without it. Errors: those of ReadFile and OpTimes::Parse.
Result<std::optional<OpTimes>> ReadOpTimes(const ModelFlags& flags);

/// The plan cache of the flags; absent with --no-plan-cache.
std::optional<PlanCache> ReadPlanCache(const ModelFlags& flags);
/// The folder of a cache, which autotune caches share; "" without a cache.
std::string FolderOf(const std::optional<PlanCache>& cache);

/// The step of the flags, checked.
struct StepSpec {
  ModelInfo info;
  ModelOptions options;                // batch and seq filled in
  TrainingSpec training;               // without programs beside the step
  std::optional<LoraRules> lora = {};  // beside a model's own layers
  /// The images of --data, if the model's sizes depend on them.
  std::shared_ptr<const ImageData> images;
  /// The metrics of evaluations, and the number of classes.
  std::vector<Metric> metrics = {};
  int64_t classes = 0;
  /// For an ONNX file: its model, whose weights a run begins with, its evaluation graph, and
  /// the examples for its inputs.
  std::shared_ptr<const OnnxModel> onnx = {};
  ModelFn onnx_evaluation = {};
  std::shared_ptr<const std::vector<NamedArray>> arrays = {};
  /// The tokenizer of a built-in model that reads tokens instead of characters.
  std::shared_ptr<const Tokenizer> tokenizer = {};
  /// For fine-tuning: the published model with tokenizer and data.
  std::shared_ptr<const Tuning> tuning = {};
};

/// The loss scaling of the flags, if any. Errors kInvalidArgument: an invalid dtype or scale.
Result<std::optional<LossScaling>> ReadLossScale(const ModelFlags& flags);

/// The training of any model with `batch` examples: optimizer, with `defaults` if it is the
/// model's, budget, optimizations, plan cache; everything but SetNoDecay, which needs the
/// model. Errors, with the option: invalid values.
Result<TrainingSpec> ReadTrainingFlags(const ModelFlags& flags,
                                       const TrainingDefaults& defaults,
                                       int64_t batch);

/// The step of a built-in model. Errors, with the option: invalid or unsupported values.
Result<StepSpec> ReadModelFlags(const ModelFlags& flags);
/// The same for a step over --data, with the tokens of --tokenizer if it is given: a character
/// model then has its vocabulary; other models must have at least as many tokens. Errors also
/// of ImageData and ReadTokenizer.
Result<StepSpec> ReadRunFlags(const RunFlags& flags);

/// Builds the model's graphs for a purpose.
ModelFn ModelOf(const StepSpec& spec, ModelPurpose purpose);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_MODEL_FLAGS_H_
