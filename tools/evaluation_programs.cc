#include "tools/evaluation_programs.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "autodiff/batch_analysis.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "tools/token_task.h"
#include "train/evaluation.h"

namespace stowage::tools {

namespace {

constexpr std::string_view kTotalsProgram = "evaluate totals";

// With what metrics are counted by, where there are any.
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
