#ifndef STOWAGE_TOOLS_PLAN_SUBJECT_H_
#define STOWAGE_TOOLS_PLAN_SUBJECT_H_

// The step that `stowage plan` plans: of a built-in model, an ONNX file, or an unmodified
// graph; with --max, the one of the largest batch, sequence or rank that fits a budget.
//
//   Result<Subject> subject = ReadSubject(flags, options, on_choice);
//   Result<PlannedStep> planned = PlanSharded(*subject);

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "ir/canonicalize/canonicalize.h"
#include "planner/plan_memory.h"
#include "tools/flags.h"
#include "tools/model_flags.h"
#include "tools/onnx_flags.h"
#include "train/step_memory.h"
#include "train/step_planner.h"
#include "train/training.h"

namespace stowage::tools {

struct PlanFlags {
  ModelFlags model;
  OnnxFlags onnx;
  PackerFlags packer;
  RankFlags ranks;
  std::string device;
  std::string cpu_target;
  std::string graph;
  std::string output, svg, html, certificate;
  bool train = false;
  bool pareto = false;
  bool fit_optimizer = false;
  std::string max;  // the setting to maximize
  bool explain = false;
  bool list_params = false;
  bool traffic = false;
  std::string roofline;
  bool json = false;
  bool evaluate = false;  // also of the model's evaluation
};

/// A training step, or an unmodified graph.
struct Subject {
  std::optional<StepSpec> spec;  // of a built-in model
  std::optional<TrainingPlanner>
      training;                        // of a built-in model or an ONNX file's
  std::unique_ptr<StepPlanner> graph;  // of an unmodified graph
  std::optional<OnnxStep> onnx;        // of an ONNX file
  std::optional<Canonicalized> canonical;  // of an ONNX file, for --explain
  RankPlan ranks;

  StepPlanner& planner() { return training ? training->step() : *graph; }
  // The planned rank's part of the batch, which micro-batches split.
  std::optional<int64_t> batch() const {
    if (!training) return std::nullopt;
    const TrainingSpec& trained = training->spec();
    return PartOfRank(trained.batch, trained.ranks.ranks, trained.ranks.rank)
        .count;
  }
};

/// Reads what the flags name. Errors: those of the flags, of the file and of
/// TrainingPlanner::Make.
Result<Subject> ReadSubject(const PlanFlags& flags, const PlanOptions& options,
                            const std::function<void()>& on_choice);

/// Plans the step with the first sharding that fits the budget. If none does, returns the error
/// of the last, which is then the subject's sharding.
Result<PlannedStep> PlanSharded(Subject& subject);

/// Finds the largest value of the setting --max that fits the budget, and its step. Sets the
/// defaults that it uses in `flags`. Errors, with --max: those of ReadSubject and FindLargest;
/// kInvalidArgument if nothing bounds the value, or it is given.
Result<Largest> ReadLargest(const PlanOptions& options,
                            const std::function<void()>& on_choice,
                            PlanFlags* flags, std::optional<Subject>* subject);

/// "the largest batch that fits is 4; 5 needs 1.0 MB (1000704 bytes)", and an empty line.
std::string LargestText(const std::string& setting, const Largest& largest);
/// {"setting", "value", "next", "next_minimum_budget_bytes", "next_refusal", "plans"}.
nlohmann::ordered_json LargestJson(const std::string& setting,
                                   const Largest& largest);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_PLAN_SUBJECT_H_
