#include "tools/plan_subject.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/text.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

// The evaluation of a model that is trained.
Result<ModelFn> EvaluatedModel(const Subject& subject,
                               const ModelFlags& flags) {
  if (subject.spec) return ModelOf(*subject.spec, ModelPurpose::kEvaluate);
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<LoraRules> lora,
                           ReadLora(flags));
  return WithAdapters([pass = subject.onnx->ForwardPass()](
                          int64_t examples) { return pass.Build(examples); },
                      lora);
}

}  // namespace

Result<Subject> ReadSubject(const PlanFlags& flags, const PlanOptions& options,
                            const std::function<void()>& on_choice) {
  Subject subject;
  STOWAGE_ASSIGN_OR_RETURN(subject.ranks, ReadRankFlags(flags.ranks));
  std::optional<OnnxStep>& onnx = subject.onnx;
  if (!flags.onnx.file.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(onnx, ReadOnnxStep(flags.onnx, flags.model));
    if (flags.explain) {
      STOWAGE_ASSIGN_OR_RETURN(subject.canonical,
                               onnx->BuildCanonical(onnx->batch));
    }
  }
  const bool trains = flags.graph.empty() && (!onnx || onnx->options.loss);
  if (flags.train && !trains) {
    return Error{ErrorCode::kInvalidArgument,
                 onnx ? "[plan] what the training step is for is not told; "
                        "give --loss with --train"
                      : "[plan] a graph is planned as it is; leave --train "
                        "away, or give --model or --onnx"};
  }
  if (trains) {
    TrainingSpec training;
    if (onnx) {
      STOWAGE_ASSIGN_OR_RETURN(
          training, ReadOnnxTraining(*onnx, flags.onnx, flags.model));
    } else {
      STOWAGE_ASSIGN_OR_RETURN(subject.spec, ReadModelFlags(flags.model));
      training = subject.spec->training;
    }
    if (flags.evaluate) {
      STOWAGE_ASSIGN_OR_RETURN(ModelFn evaluation,
                               EvaluatedModel(subject, flags.model));
      training.programs.push_back({.name = "evaluate",
                                   .model = std::move(evaluation),
                                   .batch = training.batch});
    }
    training.planning = options;
    training.on_choice = on_choice;
    SetRanks(
        {.ranks = subject.ranks.ranks, .shard = subject.ranks.shards.front()},
        &training);
    STOWAGE_ASSIGN_OR_RETURN(
        subject.training,
        TrainingPlanner::Make(std::move(training), options.device));
    return subject;
  }
  if (subject.ranks.ranks > 1) {
    return Error{ErrorCode::kInvalidArgument,
                 "[ranks] a graph is planned as it is; leave --ranks away, or "
                 "give --model, or --onnx with --loss"};
  }
  StepQuestion question{.fit = {.plan = options, .on_choice = on_choice},
                        .cache = ReadPlanCache(flags.model)};
  STOWAGE_ASSIGN_OR_RETURN(question.fit.optimizations,
                           ReadOptimizations(flags.model, std::nullopt));
  STOWAGE_ASSIGN_OR_RETURN(question.budget,
                           ParseSizeOption("budget", flags.model.budget));
  STOWAGE_ASSIGN_OR_RETURN(question.op_times, ReadOpTimes(flags.model));
  const auto read = [&]() -> Result<Graph> {
    if (onnx) return onnx->Build(onnx->batch);
    STOWAGE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(flags.graph));
    return ParseGraph(text);
  };
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, read());
  question.build = OfGraph(graph);
  question.sources = [graph] { return std::vector{graph}; };
  subject.graph = std::make_unique<StepPlanner>(std::move(question));
  return subject;
}

Result<PlannedStep> PlanSharded(Subject& subject) {
  for (size_t i = 0;; ++i) {
    Result<PlannedStep> planned = subject.planner().Plan();
    const bool is_last = i + 1 >= subject.ranks.shards.size();
    if (planned.ok() || is_last ||
        planned.error().code != ErrorCode::kBudgetTooSmall) {
      return planned;
    }
    TrainingSpec training = subject.training->spec();
    training.ranks.shard = subject.ranks.shards[i + 1];
    DeviceNeeds device = training.planning.device;
    Result<TrainingPlanner> next =
        TrainingPlanner::Make(std::move(training), std::move(device));
    // An optimizer that cannot be sharded does not fit with more sharding either.
    if (!next.ok()) return planned;
    subject.training = *std::move(next);
  }
}

namespace {

using Json = nlohmann::ordered_json;

// A batch to read the model with before one is chosen, with many numbers of micro-batches.
constexpr int64_t kAnyBatch = 12;

// The smallest budget over the shardings to try.
Result<Bytes> SmallestOfShardings(Subject& subject) {
  STOWAGE_ASSIGN_OR_RETURN(Bytes smallest, subject.planner().SmallestBudget());
  for (size_t i = 1; i < subject.ranks.shards.size(); ++i) {
    TrainingSpec training = subject.training->spec();
    training.ranks.shard = subject.ranks.shards[i];
    DeviceNeeds device = training.planning.device;
    Result<TrainingPlanner> next =
        TrainingPlanner::Make(std::move(training), std::move(device));
    if (!next.ok()) break;  // an optimizer that cannot be sharded
    STOWAGE_ASSIGN_OR_RETURN(const Bytes bytes, next->step().SmallestBudget());
    smallest = std::min(smallest, bytes);
  }
  return smallest;
}

// The setting that --max names.
Result<std::optional<int64_t>*> SettingOf(const std::string& name,
                                          ModelFlags* flags) {
  if (name == "batch") return &flags->batch;
  if (name == "seq") return &flags->seq;
  if (name == "lora-rank") return &flags->lora_rank;
  return InvalidArgumentError("[max] there is no setting ", Quoted(name),
                              "; expected batch, seq or lora-rank");
}

// Checks that the ONNX file does not fix its batch. Errors: those of ReadOnnxStep.
Status CheckBatchIsOpen(const PlanFlags& flags) {
  if (flags.onnx.file.empty()) return {};
  STOWAGE_ASSIGN_OR_RETURN(const OnnxStep step,
                           ReadOnnxStep(flags.onnx, flags.model));
  if (!step.batch_symbol.empty() &&
      !step.options.dims.contains(step.batch_symbol)) {
    return {};
  }
  return InvalidArgumentError(
      "[max] the file, --dim or --shape fixes the batch at ", step.batch,
      "; --max batch looks for it in a file whose first dimension has a name");
}

}  // namespace

Result<Largest> ReadLargest(const PlanOptions& options,
                            const std::function<void()>& on_choice,
                            PlanFlags* flags, std::optional<Subject>* subject) {
  ModelFlags& model = flags->model;
  STOWAGE_ASSIGN_OR_RETURN(std::optional<int64_t>* const setting,
                           SettingOf(flags->max, &model));
  if (*setting) {
    return InvalidArgumentError("[max] --", flags->max, " ", **setting,
                                " is given, and --max ", flags->max,
                                " looks for it; leave one of them out");
  }
  if (model.budget.empty()) {
    return InvalidArgumentError("[max] nothing bounds the ", flags->max,
                                "; give --budget");
  }
  if (flags->max != "batch" && model.model.empty()) {
    return InvalidArgumentError("[max] --max ", flags->max,
                                " applies where --model is given; give batch");
  }
  LargestOptions search;
  if (flags->max == "batch") {
    STOWAGE_RETURN_IF_ERROR(CheckBatchIsOpen(*flags));
    // In micro-batches that are as small as it takes any batch fits.
    const bool chooses = std::ranges::any_of(
        model.optimizations,
        [](const auto& choice) { return !choice.second.empty(); });
    if (model.fit.empty() && !chooses) model.fit = "recompute,offload";
    STOWAGE_ASSIGN_OR_RETURN(const MemoryOptimizations optimizations,
                             ReadOptimizations(model, kAnyBatch));
    if (optimizations.micro_batches.size() > 1) {
      return InvalidArgumentError(
          "[max] in micro-batches that the planner chooses, any batch fits; "
          "give --micro-batches a number, by default 1, or --fit "
          "recompute,offload");
    }
    STOWAGE_ASSIGN_OR_RETURN(const RankPlan ranks, ReadRankFlags(flags->ranks));
    search.multiple = ranks.ranks * optimizations.micro_batches.front();
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<Bytes> budget,
                           ParseSizeOption("budget", model.budget));
  const auto need_of = [&](int64_t value) -> Result<Bytes> {
    *setting = value;
    STOWAGE_ASSIGN_OR_RETURN(Subject asked,
                             ReadSubject(*flags, options, on_choice));
    const Result<Bytes> need = SmallestOfShardings(asked);
    // Values that fit are found in ascending order.
    if (need.ok() && *need <= *budget) subject->emplace(std::move(asked));
    return need;
  };
  Result<Largest> largest = FindLargest(need_of, *budget, search);
  if (largest.ok()) return largest;
  return Error{largest.error().code,
               StrCat("[max] ", flags->max, ": ", largest.error().message)};
}

std::string LargestText(const std::string& name, const Largest& largest) {
  std::string text =
      StrCat("the largest ", name, " that fits is ", largest.value);
  if (const auto& above = largest.above) {
    text +=
        above->need.ok()
            ? StrCat("; ", above->value, " needs ", FormatBytes(*above->need),
                     " (", *above->need, " bytes)")
            : StrCat("; ", above->value, " is refused: ",
                     WithoutControls(above->need.error().message));
  }
  return text + "\n\n";
}

nlohmann::ordered_json LargestJson(const std::string& name,
                                   const Largest& largest) {
  Json json = {
      {"setting", name},         {"value", largest.value},
      {"next", nullptr},         {"next_minimum_budget_bytes", nullptr},
      {"next_refusal", nullptr}, {"plans", largest.plans}};
  if (const auto& above = largest.above) {
    json["next"] = above->value;
    if (above->need.ok()) {
      json["next_minimum_budget_bytes"] = *above->need;
    } else {
      json["next_refusal"] = above->need.error().message;
    }
  }
  return json;
}

}  // namespace stowage::tools
