#ifndef STOWAGE_TOOLS_PLAN_SUBJECT_H_
#define STOWAGE_TOOLS_PLAN_SUBJECT_H_

// Reads the step that `stowage plan` plans. It is the step of a built-in model or of an ONNX file,
// or an unmodified graph. With --max, it is the step with the largest batch, sequence length or
// LoRA rank that fits a budget.
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
  // Returns the planned rank's share of the batch, which micro-batches split.
  std::optional<int64_t> batch() const {
    if (!training) return std::nullopt;
    const TrainingSpec& trained = training->spec();
    return PartOfRank(trained.batch, trained.ranks.ranks, trained.ranks.rank)
        .count;
  }
};

/// Reads the model or graph that the flags name. Propagates errors of the flags, of the file and of
/// TrainingPlanner::Make.
Result<Subject> ReadSubject(const PlanFlags& flags, const PlanOptions& options,
                            const std::function<void()>& on_choice);

/// Plans the step with the first sharding that fits the budget. If none fits, returns the error of
/// the last sharding, and the subject keeps that sharding.
Result<PlannedStep> PlanSharded(Subject& subject);

/// Finds the largest value of the setting --max that fits the budget, and the step with this value.
/// Writes the defaults that it uses to `flags`. Propagates errors of ReadSubject and FindLargest,
/// and names --max in them. Returns kInvalidArgument if nothing bounds the value, or if the setting
/// is also given as an option.
Result<Largest> ReadLargest(const PlanOptions& options,
                            const std::function<void()>& on_choice,
                            PlanFlags* flags, std::optional<Subject>* subject);

/// Returns "the largest batch that fits is 4; 5 needs 1.0 MB (1000704 bytes)" and an empty line.
std::string LargestText(const std::string& setting, const Largest& largest);
/// Returns {"setting", "value", "next", "next_minimum_budget_bytes", "next_refusal", "plans"}.
nlohmann::ordered_json LargestJson(const std::string& setting,
                                   const Largest& largest);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_PLAN_SUBJECT_H_
