#ifndef STOWAGE_TOOLS_MODEL_FLAGS_H_
#define STOWAGE_TOOLS_MODEL_FLAGS_H_

// Declares and reads the options that define a training step, for the commands that plan or run
// steps.
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
  std::string optimizer;   // if empty, the model's optimizer
  std::string loss_scale;  // if empty, dynamic for f16 and none for other types
  OptimizationFlags optimization;
  std::string budget;  // if empty, memory is not limited
  int threads = 0;     // 0 means one per hardware thread
  std::vector<std::string> recompute_keep, recompute_always;  // names of values
  std::string op_times;  // a file; if empty, costs are numbers of operations
  /// The value of --fit. If empty, it is "auto" if there is a budget and none of the choices below
  /// is given.
  std::string fit;
  std::string micro_batches;  // if empty, `fit` decides
  bool allow_batch_change = false;
  /// Choices, keyed by OptimizationInfo::name. If a choice is empty, `fit` decides.
  std::map<std::string, std::string> optimizations;
  std::string plan_cache;  // a folder; if empty, the default folder
  bool no_plan_cache = false;
  std::optional<int64_t> lora_rank;  // if absent, there are no adapters
  std::optional<double> lora_alpha;
  std::vector<std::string> lora_targets;
};

/// The options of commands that run steps.
struct RunFlags {
  ModelFlags model;
  std::string data;       // a file
  std::string tokenizer;  // of a text model; if empty, the model's default
  std::string device = "auto";
  int64_t seed = 1;
  std::string offload_dir;  // if empty, the system's folder for temporary files
};

/// Declares the options of ModelFlags except --model and the options of adapters.
void AddModelOptions(Options& options, ModelFlags* flags);

/// Returns the names of the options of AddModelOptions and AddLoraOptions that apply only to
/// training.
std::vector<std::string> OptionsOfTraining();

/// Declares the options of adapters: --lora-rank and related options.
void AddLoraOptions(Options& options, ModelFlags* flags);

/// Returns the adapters that the flags describe, or nullopt without --lora-rank. Returns
/// kInvalidArgument if targets or an alpha are given without a rank.
Result<std::optional<LoraRules>> ReadLora(const ModelFlags& flags);

/// Returns `model` with these adapters, or `model` itself if `lora` is absent.
ModelFn WithAdapters(ModelFn model, const std::optional<LoraRules>& lora);

/// Declares all options of RunFlags. --model and --data are required.
void AddRunOptions(Options& options, RunFlags* flags);
/// Declares the options of the model, the device and the seed.
void AddStepOptions(Options& options, RunFlags* flags);

/// Returns the memory optimizations that the flags allow for a step of `batch` examples, or for a
/// graph without a batch if `batch` is absent. Returns kInvalidArgument if a choice is unknown, if
/// values to keep or recompute are named but recomputation is disabled, if micro-batches are
/// requested for a graph, or if there are more micro-batches than examples.
Result<MemoryOptimizations> ReadOptimizations(const ModelFlags& flags,
                                              std::optional<int64_t> batch);

/// Returns the op times of --op-times, or nullopt without the option. Propagates errors of ReadFile
/// and OpTimes::Parse.
Result<std::optional<OpTimes>> ReadOpTimes(const ModelFlags& flags);

/// Returns the plan cache in the folder of --plan-cache or in the default folder, or nullopt with
/// --no-plan-cache.
std::optional<PlanCache> ReadPlanCache(const ModelFlags& flags);
/// Returns the folder of a plan cache, which also contains autotune caches, or "" if `cache` is
/// absent.
std::string FolderOf(const std::optional<PlanCache>& cache);

/// The step that the flags describe, after validation of the flags.
struct StepSpec {
  ModelInfo info;
  ModelOptions options;   // batch and seq filled in
  TrainingSpec training;  // with no programs other than the step
  /// Adapters that the flags add to the model.
  std::optional<LoraRules> lora = {};
  /// The images of --data, if the sizes of the model depend on them.
  std::shared_ptr<const ImageData> images;
  /// The metrics of evaluations, and the number of classes.
  std::vector<Metric> metrics = {};
  int64_t classes = 0;
  /// For a model from an ONNX file: the content of the file with the initial weights, the graph for
  /// evaluation, and the examples for the model's inputs.
  std::shared_ptr<const OnnxModel> onnx = {};
  ModelFn onnx_evaluation = {};
  std::shared_ptr<const std::vector<NamedArray>> arrays = {};
  /// The tokenizer of a built-in model that reads tokens instead of characters.
  std::shared_ptr<const Tokenizer> tokenizer = {};
  /// The published model with its tokenizer and data, for fine-tuning.
  std::shared_ptr<const Tuning> tuning = {};
};

/// Returns the loss scaling that the flags request, or nullopt if there is none. Returns
/// kInvalidArgument if the dtype or the scale is invalid.
Result<std::optional<LossScaling>> ReadLossScale(const ModelFlags& flags);

/// Returns a training spec for `batch` examples with the optimizer, the budget, the memory
/// optimizations and the plan cache, but without a model. `defaults` are the defaults for the
/// model's own optimizer. After setting the model, the caller must call SetNoDecay. Returns
/// kInvalidArgument, naming the option, if a value is invalid.
Result<TrainingSpec> ReadTrainingFlags(const ModelFlags& flags,
                                       const TrainingDefaults& defaults,
                                       int64_t batch);

/// Returns the step of the built-in model that --model names. Returns an error that names the
/// option if a value is invalid or unsupported.
Result<StepSpec> ReadModelFlags(const ModelFlags& flags);
/// Returns the step of a built-in model that is trained on --data. With --tokenizer, the vocabulary
/// of a character model is the vocabulary of the tokenizer. The vocabulary of other models must be
/// at least as large. Propagates errors of ReadModelFlags, ImageData and ReadTokenizer.
Result<StepSpec> ReadRunFlags(const RunFlags& flags);

/// Returns the function that builds the graphs of the spec's model for `purpose`.
ModelFn ModelOf(const StepSpec& spec, ModelPurpose purpose);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_MODEL_FLAGS_H_
