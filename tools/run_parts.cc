#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "autodiff/batch_analysis.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "runtime/checkpoint.h"
#include "tools/command.h"
#include "tools/heap_counter.h"
#include "tools/run_training.h"
#include "tools/sample.h"
#include "tools/stop_signals.h"
#include "train/evaluation.h"
#include "train/state_backup.h"

namespace stowage::tools {

namespace {

using Json = nlohmann::ordered_json;

Json StepJson(const StepFigures& figures, const MemoryFigures& memory) {
  Json json = Json::object();
  json["step"] = figures.step;
  json["loss"] = figures.loss;
  json["lr"] = figures.lr;
  json["epoch"] = figures.epoch;
  json["grad_norm"] = figures.grad_norm ? Json(*figures.grad_norm) : Json();
  json["step_seconds"] = figures.seconds;
  json["tokens_per_second"] = figures.tokens_per_second;
  json["arena_bytes"] = memory.arena;
  json["budget_bytes"] = memory.budget ? Json(*memory.budget) : Json();
  json["lower_bound_bytes"] = memory.lower_bound;
  json["no_reuse_bytes"] = memory.no_reuse;
  json["saved_bytes"] = memory.saved();
  return json;
}

}  // namespace

Result<std::optional<Evaluation>> TaskData::Evaluate(Training& training) {
  WorkProgress progress("evaluating", "batches");
  ClassCounts* const counts = task_.counts();
  if (counts != nullptr) counts->Clear();
  STOWAGE_ASSIGN_OR_RETURN(
      Evaluation evaluation,
      task_.Evaluate(*training.Find("evaluate"), evaluation_batch_, progress));
  // Ranks that evaluate alone stop at their own signals.
  STOWAGE_ASSIGN_OR_RETURN(
      const int stopped,
      ranks_.AnyOf(progress.is_stopped() ? StopSignals::caught() : 0));
  if (stopped != 0) return std::optional<Evaluation>();
  if (counts == nullptr) return std::optional(std::move(evaluation));
  if (!ranks_.alone()) STOWAGE_RETURN_IF_ERROR(ranks_.Sum(counts->sums()));
  for (const Metric metric : metrics_) {
    evaluation.metrics.emplace_back(MetricName(metric), counts->Value(metric));
  }
  return std::optional(std::move(evaluation));
}

RunReporter::RunReporter(const Options& options)
    : options_(options),
      progress_(options.done + 1, options.run.last_step(), options.token_name,
                options.memory) {}

void RunReporter::PrintStep(const StepFigures& figures, bool skipped) {
  Json json = StepJson(figures, options_.memory);
  if (options_.shapes_differ) json["tokens"] = figures.tokens;
  if (figures.loss_scale) json["loss_scale"] = *figures.loss_scale;
  if (skipped) json["skipped"] = true;
  PrintJson(json);
}

void RunReporter::OnStep(const StepFigures& figures) {
  if (options_.keeps_losses) {
    losses_.push_back({.step = figures.step, .loss = figures.loss});
  }
  if (options_.log != nullptr) options_.log->OnStep(figures);
  if (options_.json) {
    PrintStep(figures, false);
  } else {
    progress_.Show(figures);
  }
}

void RunReporter::OnSkipped(const StepFigures& figures, const std::string& why,
                            std::string_view outcome) {
  if (options_.log != nullptr) options_.log->OnSkipped(figures, why, outcome);
  if (options_.json) PrintStep(figures, true);
  std::cerr << why << "; " << outcome << std::endl;
}

void RunReporter::OnEvaluation(int64_t step,
                               const std::optional<Evaluation>& evaluation,
                               bool counts) {
  if (options_.log != nullptr) {
    options_.log->OnEvaluation(step, evaluation, counts);
  }
  if (!counts) return;
  if (options_.json) {
    Json json = {{"step", step}, {"validation_loss", evaluation->loss}};
    if (options_.reads_text) json["perplexity"] = std::exp(evaluation->loss);
    if (evaluation->accuracy) json["accuracy"] = *evaluation->accuracy;
    for (const auto& [name, value] : evaluation->metrics) {
      json[std::string(name)] = value;
    }
    PrintJson(json);
    return;
  }
  std::cerr << "step " << step << "  validation loss "
            << Fixed(evaluation->loss, 4);
  if (evaluation->accuracy) {
    std::cerr << "  accuracy " << Fixed(100 * *evaluation->accuracy, 1) << " %";
  }
  for (const auto& [name, value] : evaluation->metrics) {
    std::cerr << "  " << name << " " << Fixed(value, 4);
  }
  std::cerr << std::endl;
}

Status RunReporter::OnUnsaved(const Error& error) {
  std::cerr << "stowage: " << error.message << "; training goes on"
            << std::endl;
  return {};
}

int RunReporter::StopAsked() { return StopSignals::caught(); }

std::optional<int64_t> RunReporter::HeapAllocations() {
  return tools::HeapAllocations();
}

// The program with whole params and states; if ranks split them, gathers them into `whole`.
Result<Runner*> FilesSaver::Gathered(Training& training,
                                     std::optional<WholeValues>* whole) {
  Runner& step = training.step();
  if (values_.own_name == nullptr) return &step;
  STOWAGE_ASSIGN_OR_RETURN(*whole,
                           WholeValues::Make(values_.whole, training.backend(),
                                             *ranks_.collectives()));
  STOWAGE_RETURN_IF_ERROR((*whole)->Gather(step));
  Session* const session = (*whole)->session();
  return session == nullptr ? &step : &session->front();
}

Status FilesSaver::Save(Training& training, int64_t step,
                        const EvaluationHistory& history,
                        std::optional<double> held_out_loss, bool best_alone) {
  files_.set_history(history);
  if (files_.saves_shards()) {
    return files_.SaveShards(training.step(), values_, ranks_.collectives(),
                             step, held_out_loss, best_alone);
  }
  if (!saves_checkpoints_) {  // each rank checks its own values
    return best_alone ? Status() : CheckFinite(training.step());
  }
  std::optional<WholeValues> whole;
  STOWAGE_ASSIGN_OR_RETURN(const Runner* const values,
                           Gathered(training, &whole));
  return files_.Save(*values, step, held_out_loss, best_alone);
}

Status FilesSaver::SaveForOthers(Training& training, const StepSpec& spec) {
  std::optional<WholeValues> whole;
  STOWAGE_ASSIGN_OR_RETURN(AveragedWeights averaged,
                           AveragedWeights::Use(training.step()));
  STOWAGE_ASSIGN_OR_RETURN(const Runner* const values,
                           Gathered(training, &whole));
  const Status saved = files_.exports().Save(*values, spec);
  return Both(saved, averaged.Restore());
}

namespace {

constexpr std::string_view kTotalsProgram = "evaluate totals";

// The evaluation graph, with the outputs of metrics if there are any.
ModelFn EvaluationOf(const StepSpec& spec) {
  ModelFn evaluate = ModelOf(spec, ModelPurpose::kEvaluate);
  if (spec.metrics.empty()) return evaluate;
  return [evaluate = std::move(evaluate)](int64_t batch) -> Result<Graph> {
    STOWAGE_ASSIGN_OR_RETURN(const Graph graph, evaluate(batch));
    return WithPredictions(graph);
  };
}

}  // namespace

EvaluationSplits::EvaluationSplits(const StepSpec& spec, const Task& task)
    : evaluate_(EvaluationOf(spec)), task_(task) {}

bool EvaluationSplits::IsPart(int64_t examples) const {
  return examples < task_.EvaluationExamples();
}

const Result<SplitEvaluation>& EvaluationSplits::Of(int64_t examples) {
  const auto found = splits_.find(examples);
  if (found != splits_.end()) return found->second;
  Result<SplitEvaluation> split = Find(examples);
  if (split.ok() && !totals_) totals_ = split->totals;
  if (split.ok() && split->totals != *totals_) {
    split = Error{ErrorCode::kUnsupported,
                  StrCat("batches of ", examples, " have other totals")};
  }
  return splits_.emplace(examples, std::move(split)).first->second;
}

const Result<SplitEvaluation>& EvaluationSplits::OfAtMost(int64_t most) {
  const int64_t fewer = task_.EvaluationExamples() - 1;
  return Of(task_.EvaluationBatch(std::max<int64_t>(1, std::min(most, fewer))));
}

Result<SplitEvaluation> EvaluationSplits::Find(int64_t examples) const {
  const int64_t all = task_.EvaluationExamples();
  STOWAGE_ASSIGN_OR_RETURN(const Graph part, evaluate_(examples));
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole, evaluate_(all));
  return SplitForEvaluation(
      whole, part, static_cast<double>(examples) / static_cast<double>(all));
}

std::vector<ProgramSpec> ProgramsBeside(
    const StepSpec& spec, const Task& task,
    const std::shared_ptr<EvaluationSplits>& splits, int64_t sample_positions) {
  if (!task.has_held_out()) return {};
  const ModelFn evaluate = EvaluationOf(spec);
  const int64_t batch = *spec.options.batch;
  std::vector<ProgramSpec> programs;
  programs.push_back(
      {.name = "evaluate",
       .model = [&task, evaluate, splits](int64_t most) -> Result<Graph> {
         const int64_t examples = task.EvaluationBatch(most);
         if (!splits->IsPart(examples)) return evaluate(examples);
         const Result<SplitEvaluation>& split = splits->Of(examples);
         return split.ok() ? split->graph : evaluate(examples);
       },
       .batch = batch});
  std::ranges::move(SamplePrograms(spec, sample_positions),
                    std::back_inserter(programs));
  if (!splits->IsPart(1)) return programs;
  if (const auto& split = splits->OfAtMost(batch);
      split.ok() && !split->totals.empty()) {
    programs.push_back({.name = std::string(kTotalsProgram),
                        .model = [splits](int64_t most) -> Result<Graph> {
                          const Result<SplitEvaluation>& of_most =
                              splits->OfAtMost(most);
                          if (!of_most.ok()) return of_most.error();
                          return of_most->totals_graph;
                        },
                        .batch = batch});
  }
  return programs;
}

Status PrepareEvaluation(EvaluationSplits& splits, int64_t batch, Task* task,
                         Training* training) {
  if (batch == 0 || !splits.IsPart(batch)) return {};
  const Result<SplitEvaluation>& split = splits.Of(batch);
  std::string why = split.ok() ? "" : split.error().message;
  if (split.ok()) {
    int64_t totals_batch = batch;
    for (const PlannedProgram& program : training->plan().programs) {
      if (program.name != kTotalsProgram) continue;
      totals_batch = task->EvaluationBatch(std::min(
          program.batch, std::max<int64_t>(1, task->EvaluationExamples() - 1)));
    }
    STOWAGE_RETURN_IF_ERROR(task->PrepareEvaluation(
        *split, training->Find(kTotalsProgram), totals_batch));
    const auto loss = split->outputs.find("loss");
    if (loss == split->outputs.end() ||
        loss->second.kind != BatchKind::kMixed) {
      return {};
    }
    why = loss->second.why;
  }
  std::cerr << StrCat("[hold-out] the loss of ", task->EvaluationExamples(),
                      " examples does not follow from batches of ", batch, " (",
                      why, "); the held-out loss is the mean of theirs")
            << std::endl;
  return {};
}

}  // namespace stowage::tools
