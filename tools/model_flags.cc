#include "tools/model_flags.h"

#include <charconv>
#include <functional>
#include <iostream>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "data/text_data.h"
#include "ir/graph.h"
#include "tools/command.h"
#include "tools/tuning.h"
#include "train/fine_tuning.h"
#include "train/optimizer_choice.h"

namespace stowage::tools {
namespace {

// Micro-batches of a batch: a number, or absent for "auto".
Result<std::optional<int64_t>> ParseMicroBatches(std::string_view text) {
  if (text == "auto") return std::optional<int64_t>();
  int64_t count = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, count);
  if (parsed.ec != std::errc() || parsed.ptr != end || count < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[micro-batches] ", Quoted(text),
                        " is no number of at least 1, nor auto")};
  }
  return std::optional<int64_t>(count);
}

}  // namespace

void AddModelOptions(Options& options, ModelFlags* flags) {
  options.Group("model");
  options.Add("--batch", &flags->batch, "Examples a step");
  options.Add("--seq", &flags->seq, "Tokens in a sequence");
  options.Add("--dtype", &flags->dtype,
              "Element type of weights and activations");
  options.Group("optimization");
  options.Add("--optimizer", &flags->optimizer,
              StrCat(OptimizerChoices(), "; default: the model's"));
  options.Add(
      "--loss-scale", &flags->loss_scale,
      "Loss scale: dynamic, none or a number; steps with non-finite gradients "
      "are skipped; default: dynamic with --dtype f16, else none");
  AddOptimizationOptions(options, &flags->optimization);
  options.Group("memory");
  options.Add("--budget", &flags->budget,
              "Maximum size of the arena: 64MiB, 1.5GiB, 4.2GB");
  options.Add(
      "--fit", &flags->fit,
      "Memory optimizations to try: auto, which is recompute, micro-batches, "
      "offload and tiles; none; or a comma-separated list of these and order; "
      "default: auto if only --budget is given, else none");
  for (const OptimizationInfo& optimization : OptimizationTable()) {
    std::string& choice = flags->optimizations[std::string(optimization.name)];
    options.Add(StrCat("--", optimization.name), &choice,
                std::string(optimization.help));
  }
  options.AddEach(
      "--recompute-keep", &flags->recompute_keep,
      "A value, by name, that is never recomputed; may be repeated");
  options.AddEach(
      "--recompute-always", &flags->recompute_always,
      "A value, by name, that is always recomputed; may be repeated");
  options.Add("--op-times", &flags->op_times,
              "Plan by the op times in this file, written by `stowage time`, "
              "instead of by operations");
  options.Add("--micro-batches", &flags->micro_batches,
              "Number of micro-batches of a step, whose gradients are "
              "accumulated, or auto, as few as the budget allows");
  options.AddFlag(
      "--allow-batch-change", &flags->allow_batch_change,
      "Split the batch into micro-batches, or over ranks, even if that changes "
      "the loss, because each part has its own batch statistics");
  options.Add("--plan-cache", &flags->plan_cache,
              "Folder of cached plans and autotuning results; default: "
              "stowage/ in the user's cache folder");
  options.AddFlag("--no-plan-cache", &flags->no_plan_cache,
                  "Do not use the plan cache");
  options.Exclude("--no-plan-cache", "--plan-cache");
  options.Group("run");
  options.Add("--threads", &flags->threads,
              "Number of threads, whose workspace is in the arena; default: "
              "all of the machine's");
  options.Limit("--threads", 1, 256);
}

std::vector<std::string> OptionsOfTraining() {
  return {"--optimizer",    "--loss-scale",      "--clip-norm",
          "--ema",          "--weight-decay",    "--no-decay",
          "--momentum",     "--lora-rank",       "--lora-alpha",
          "--lora-targets", "--label-smoothing", "--allow-batch-change"};
}

void AddLoraOptions(Options& options, ModelFlags* flags) {
  options.Group("model");
  options.Add("--lora-rank", &flags->lora_rank,
              "Train only low-rank adapters of this rank");
  options.Add(
      "--lora-alpha", &flags->lora_alpha,
      "Alpha of the adapters, which are scaled by alpha / rank; default: 16");
  options.AddEach("--lora-targets", &flags->lora_targets,
                  "Layers with an adapter, by name, by suffix after a dot, or "
                  "by a pattern; may be repeated; default: all matrices");
}

Result<std::optional<LoraRules>> ReadLora(const ModelFlags& flags) {
  if (!flags.lora_rank) {
    if (!flags.lora_alpha && flags.lora_targets.empty()) {
      return std::optional<LoraRules>();
    }
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[lora] ", flags.lora_alpha ? "--lora-alpha" : "--lora-targets",
               " is given, and no adapters are wanted; give "
               "--lora-rank with it")};
  }
  LoraRules rules{.rank = *flags.lora_rank};
  if (flags.lora_alpha) rules.alpha = *flags.lora_alpha;
  if (!flags.lora_targets.empty()) rules.targets = flags.lora_targets;
  return std::optional(std::move(rules));
}

ModelFn WithAdapters(ModelFn model, const std::optional<LoraRules>& lora) {
  if (!lora) return model;
  return [model = std::move(model),
          rules = *lora](int64_t batch) -> Result<Graph> {
    STOWAGE_ASSIGN_OR_RETURN(const Graph graph, model(batch));
    return WithLora(graph, rules);
  };
}

void AddRunOptions(Options& options, RunFlags* flags) {
  options.Group("model");
  options.Add("--model", &flags->model.model,
              "A name that `stowage models` lists");
  options.Group("data");
  options.Add("--data", &flags->data,
              "For text models a text, or token files (.bin, .npy); for image "
              "models a CSV of digits, a folder of IDX files, a folder of "
              "images by class, or an .npz");
  options.Require("--data");
  options.Add("--tokenizer", &flags->tokenizer,
              "Read the text as tokens of this tokenizer.json, folder or GGUF "
              "file, instead of characters (text models)");
  AddStepOptions(options, flags);
}

void AddStepOptions(Options& options, RunFlags* flags) {
  AddModelOptions(options, &flags->model);
  options.Group("memory");
  options.Add("--offload-dir", &flags->offload_dir,
              "Folder of the file of --offload disk, which disappears with the "
              "run; default: the system's folder for temporary files");
  options.Group("run");
  options.Add("--device", &flags->device,
              "auto, cpu or cuda; auto is the GPU if it works");
  options.Add("--seed", &flags->seed, "Seed of all random numbers");
  options.Limit("--seed", 0, std::numeric_limits<int64_t>::max());
}

namespace {

constexpr std::string_view kMicroBatches = "micro-batches";

// The optimizations that --fit allows: OptimizationInfo::name, or kMicroBatches.
Result<std::set<std::string, std::less<>>> ReadFit(const ModelFlags& flags) {
  std::set<std::string, std::less<>> all = {"recompute", "offload", "tiles",
                                            std::string(kMicroBatches)};
  bool chooses = !flags.micro_batches.empty();
  for (const auto& [name, choice] : flags.optimizations)
    chooses |= !choice.empty();
  if (flags.fit.empty() && !flags.budget.empty() && !chooses) return all;
  std::set<std::string, std::less<>> listed;
  if (flags.fit.empty() || flags.fit == "none") return listed;
  std::string_view rest = flags.fit;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    if (name == "auto") {
      listed.insert(all.begin(), all.end());
    } else if (!all.contains(name) && name != "order") {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[fit] there is no ", Quoted(name),
                          "; expected none, or a list of auto, recompute, "
                          "micro-batches, offload, tiles and order")};
    }
    if (name != "auto") listed.emplace(name);
    if (comma == std::string_view::npos) return listed;
    rest.remove_prefix(comma + 1);
  }
}

// Checks that --fit none comes without options that ask for memory optimizations; a number of
// micro-batches or an order are allowed.
Status CheckFitNone(const ModelFlags& flags) {
  if (flags.fit != "none") return {};
  const auto refuse = [](std::string_view name, std::string_view choice) {
    return InvalidArgumentError(
        "[fit] --fit none allows no memory "
        "optimization, and --",
        name, " ", choice, " asks for one; leave one of them out");
  };
  for (const std::string_view name : {"recompute", "offload", "tiles"}) {
    const auto choice = flags.optimizations.find(std::string(name));
    if (choice == flags.optimizations.end() || choice->second.empty()) continue;
    if (choice->second != "none") return refuse(name, choice->second);
  }
  if (flags.micro_batches == "auto") return refuse(kMicroBatches, "auto");
  return {};
}

}  // namespace

Result<MemoryOptimizations> ReadOptimizations(const ModelFlags& flags,
                                              std::optional<int64_t> batch) {
  MemoryOptimizations optimizations = NoOptimizations();
  STOWAGE_RETURN_IF_ERROR(CheckFitNone(flags));
  STOWAGE_ASSIGN_OR_RETURN(const auto fit, ReadFit(flags));
  for (const OptimizationInfo& optimization : OptimizationTable()) {
    const auto choice =
        flags.optimizations.find(std::string(optimization.name));
    if (choice != flags.optimizations.end() && !choice->second.empty()) {
      STOWAGE_RETURN_IF_ERROR(optimization.set(optimizations, choice->second));
    } else if (fit.contains(optimization.name)) {
      STOWAGE_RETURN_IF_ERROR(optimization.set(
          optimizations, optimization.name == "order" ? "memory" : "auto"));
    }
  }
  optimizations.always_kept = flags.recompute_keep;
  optimizations.always_recomputed = flags.recompute_always;
  const bool names_some =
      !flags.recompute_keep.empty() || !flags.recompute_always.empty();
  if (names_some && optimizations.recompute == Recompute::kNone) {
    const bool keeps = !flags.recompute_keep.empty();
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat(
            "[recompute] ", keeps ? "--recompute-keep " : "--recompute-always ",
            Quoted(keeps ? flags.recompute_keep[0] : flags.recompute_always[0]),
            " says nothing where nothing is recomputed; give "
            "--recompute cheap or auto with it")};
  }
  // A graph from a file has no micro-batches; requesting them is an error.
  const bool is_listed = !flags.fit.empty() && flags.fit != "auto";
  const bool splits = fit.contains(kMicroBatches) && (batch || is_listed);
  STOWAGE_ASSIGN_OR_RETURN(
      const std::optional<int64_t> micro_batches,
      ParseMicroBatches(!flags.micro_batches.empty() ? flags.micro_batches
                        : splits                     ? "auto"
                                                     : "1"));
  if (!batch && micro_batches != 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "[micro-batches] a graph from a file is planned as it is; "
                 "only a --model can be taken in micro-batches"};
  }
  optimizations.micro_batches =
      micro_batches ? std::vector{*micro_batches} : MicroBatchesToTry(*batch);
  return optimizations;
}

Result<std::optional<LossScaling>> ReadLossScale(const ModelFlags& flags) {
  STOWAGE_ASSIGN_OR_RETURN(const DType dtype, ParseDType(flags.dtype));
  return ChooseLossScaling(flags.loss_scale, dtype);
}

Result<std::optional<OpTimes>> ReadOpTimes(const ModelFlags& flags) {
  if (flags.op_times.empty()) return std::optional<OpTimes>();
  STOWAGE_ASSIGN_OR_RETURN(const std::string text,
                           ReadTextFile(flags.op_times));
  Result<OpTimes> times = OpTimes::Parse(text);
  if (!times.ok()) {
    return Error{times.error().code, StrCat(times.error().message, "; in ",
                                            Quoted(flags.op_times))};
  }
  return std::optional<OpTimes>(*std::move(times));
}

std::optional<PlanCache> ReadPlanCache(const ModelFlags& flags) {
  if (flags.no_plan_cache) return std::nullopt;
  return PlanCache(flags.plan_cache.empty() ? DefaultPlanCacheFolder()
                                            : flags.plan_cache);
}

std::string FolderOf(const std::optional<PlanCache>& cache) {
  return cache ? cache->folder() : "";
}

Result<TrainingSpec> ReadTrainingFlags(const ModelFlags& flags,
                                       const TrainingDefaults& defaults,
                                       int64_t batch) {
  TrainingSpec training;
  training.batch = batch;
  training.training.allow_batch_change = flags.allow_batch_change;
  STOWAGE_ASSIGN_OR_RETURN(training.training.optimizer,
                           ChooseOptimizer(flags.optimizer, defaults));
  STOWAGE_ASSIGN_OR_RETURN(training.training.loss_scaling,
                           ReadLossScale(flags));
  STOWAGE_RETURN_IF_ERROR(
      SetOptimization(flags.optimization, &training.training));
  STOWAGE_ASSIGN_OR_RETURN(training.budget,
                           ParseSizeOption("budget", flags.budget));
  STOWAGE_ASSIGN_OR_RETURN(training.optimizations,
                           ReadOptimizations(flags, batch));
  STOWAGE_ASSIGN_OR_RETURN(training.op_times, ReadOpTimes(flags));
  training.cache = ReadPlanCache(flags);
  return training;
}

namespace {

// Whether the model reads the characters of data/text_data.h.
bool ReadsCharacters(const ModelInfo& info) {
  static_assert(kTextVocabulary == kTextCharacters);
  return info.data == ModelData::kText && info.vocabulary == kTextVocabulary;
}

// The tokenizer of a text model that does not read characters. Error kInvalidArgument: it has
// more tokens than the model.
Result<std::shared_ptr<const Tokenizer>> ReadTokens(const std::string& path,
                                                    const ModelInfo& info) {
  if (info.data != ModelData::kText) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[tokenizer] ", info.name,
                        " reads no text; leave --tokenizer away")};
  }
  STOWAGE_ASSIGN_OR_RETURN(Tokenizer tokenizer, ReadTokenizer(path));
  if (!ReadsCharacters(info) && tokenizer.size() > info.vocabulary) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[tokenizer] ", Quoted(path), " has ", tokenizer.size(),
               " tokens, and ", info.name, " has a table of ", info.vocabulary,
               "; give a tokenizer that has no more")};
  }
  return std::make_shared<const Tokenizer>(std::move(tokenizer));
}

// The properties of a step that depend on the data.
struct FromData {
  std::shared_ptr<const ImageData> images = {};
  std::shared_ptr<const Tokenizer> tokenizer = {};
};

Result<StepSpec> ReadModelStep(const ModelFlags& flags, FromData data) {
  StepSpec spec;
  STOWAGE_ASSIGN_OR_RETURN(spec.info, FindModel(flags.model));
  if (data.images != nullptr) spec.options.images = data.images->shape;
  spec.images = std::move(data.images);
  if (data.tokenizer != nullptr && ReadsCharacters(spec.info)) {
    spec.options.vocabulary = data.tokenizer->size();
  }
  spec.tokenizer = std::move(data.tokenizer);
  spec.options.batch = flags.batch.value_or(spec.info.batch);
  spec.options.seq = flags.seq;
  if (!flags.seq && spec.info.seq > 0) spec.options.seq = spec.info.seq;
  STOWAGE_ASSIGN_OR_RETURN(spec.options.dtype, ParseDType(flags.dtype));
  STOWAGE_ASSIGN_OR_RETURN(spec.lora, ReadLora(flags));
  const ModelFn model = ModelOf(spec, ModelPurpose::kTrain);
  // Sizes that the model does not support are reported by the model.
  const Result<Graph> graph =
      WithSmoothing(flags.optimization, model)(*spec.options.batch);
  if (!graph.ok()) return graph.error();
  STOWAGE_ASSIGN_OR_RETURN(
      spec.training,
      ReadTrainingFlags(flags, spec.info.training, *spec.options.batch));
  spec.training.model = WithSmoothing(flags.optimization, model);
  if (spec.lora) spec.training.training.groups = LoraGroups();
  STOWAGE_RETURN_IF_ERROR(SetNoDecay(flags.optimization, &spec.training));
  return spec;
}

}  // namespace

Result<StepSpec> ReadModelFlags(const ModelFlags& flags) {
  return ReadModelStep(flags, {});
}

Result<StepSpec> ReadRunFlags(const RunFlags& flags) {
  // Look up the model first: an unknown name is reported without reading data.
  STOWAGE_ASSIGN_OR_RETURN(const ModelInfo info, FindModel(flags.model.model));
  FromData data;
  if (!flags.tokenizer.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(data.tokenizer, ReadTokens(flags.tokenizer, info));
  }
  if (info.data == ModelData::kText || !ImageData::Reads(flags.data)) {
    return ReadModelStep(flags.model, std::move(data));
  }
  STOWAGE_ASSIGN_OR_RETURN(
      ImageData images,
      ImageData::Load(flags.data,
                      {.seed = static_cast<uint64_t>(flags.seed),
                       .channels = info.images.channels,
                       .labels_pixels = info.data == ModelData::kPixels}));
  if (const auto& left_out = images.left_out; !left_out.empty()) {
    std::cerr << StrCat("stowage: of ", Quoted(flags.data), " ",
                        left_out.size(),
                        left_out.size() == 1 ? " part is" : " parts are",
                        " not read: ", Quoted(left_out.front()),
                        left_out.size() > 1 ? ", ..." : "")
              << std::endl;
  }
  if (images.classes_without > 0) {
    std::cerr << StrCat("stowage: of the ", images.shape.classes,
                        " classes of ", Quoted(flags.data), ", 0 to ",
                        images.shape.classes - 1, ", ", images.classes_without,
                        images.classes_without == 1 ? " has" : " have",
                        " no image to train with")
              << std::endl;
  }
  data.images = std::make_shared<const ImageData>(std::move(images));
  return ReadModelStep(flags.model, std::move(data));
}

ModelFn ModelOf(const StepSpec& spec, ModelPurpose purpose) {
  if (spec.onnx) {
    return purpose == ModelPurpose::kEvaluate ? spec.onnx_evaluation
                                              : spec.training.model;
  }
  if (spec.tuning) {
    return spec.tuning->model.ModelOf(purpose, *spec.options.seq,
                                      spec.options.cache);
  }
  return WithAdapters(
      [name = std::string(spec.info.name), options = spec.options,
       purpose](int64_t batch) {
        ModelOptions of_batch = options;
        of_batch.batch = batch;
        return BuildModel(name, purpose, of_batch);
      },
      spec.lora);
}

}  // namespace stowage::tools
