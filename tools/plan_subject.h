#ifndef STOWAGE_TOOLS_PLAN_SUBJECT_H_
#define STOWAGE_TOOLS_PLAN_SUBJECT_H_

// Reads the step that `stowage plan` plans. This is the training step of a built-in model or of a
// model from an ONNX file, or a graph that is planned without adding a backward pass. With --max,
// it is the step with the largest batch, sequence length or LoRA rank that fits a budget.
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
  bool evaluate = false;  // also plan the model's evaluation
};

/// A training step (`training`), or a graph that is planned as it is (`graph`).
struct Subject {
  std::optional<StepSpec> spec;  // of a built-in model
  std::optional<TrainingPlanner>
      training;                        // of a built-in model or an ONNX file's
  std::unique_ptr<StepPlanner> graph;  // of an unmodified graph
  std::optional<OnnxStep> onnx;        // of an ONNX file
  std::optional<Canonicalized> canonical;  // of an ONNX file, for --explain
  RankPlan ranks;

  StepPlanner& planner() { return training ? training->step() : *graph; }
  // Returns the number of examples of the planned rank, or nullopt for a graph.
  std::optional<int64_t> batch() const {
    if (!training) return std::nullopt;
    const TrainingSpec& trained = training->spec();
    return PartOfRank(trained.batch, trained.ranks.ranks, trained.ranks.rank)
        .count;
  }
};

/// Reads the model or graph that the flags name. `options` are the planning options, with the
/// requirements of the device. `on_choice` is called as FitOptions::on_choice. Propagates errors of
/// reading the flags and the file, and of TrainingPlanner::Make. Returns kInvalidArgument if
/// --train or --ranks is given for a graph.
Result<Subject> ReadSubject(const PlanFlags& flags, const PlanOptions& options,
                            const std::function<void()>& on_choice);

/// Plans `subject` with the first of subject.ranks.shards that fits the budget, and sets the
/// planner to that sharding. If none fits, returns the kBudgetTooSmall error of the last sharding
/// that the optimizer supports. Propagates other errors of StepPlanner::Plan.
Result<PlannedStep> PlanSharded(Subject& subject);

/// Finds the largest value that fits the budget for the setting that --max names, and sets
/// `*subject` to the step with this value. Also sets defaults in `*flags` that it uses. Propagates
/// errors of ReadSubject and FindLargest, with --max named in their messages. Returns
/// kInvalidArgument if no limit for the value is known, or if the setting is also given by its own
/// option.
Result<Largest> ReadLargest(const PlanOptions& options,
                            const std::function<void()>& on_choice,
                            PlanFlags* flags, std::optional<Subject>* subject);

/// Returns a line such as "the largest batch that fits is 4; 5 needs 1.0 MB (1000704 bytes)", and
/// an empty line.
std::string LargestText(const std::string& setting, const Largest& largest);
/// Returns {"setting", "value", "next", "next_minimum_budget_bytes", "next_refusal", "plans"}.
nlohmann::ordered_json LargestJson(const std::string& setting,
                                   const Largest& largest);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_PLAN_SUBJECT_H_
