#ifndef STOWAGE_TOOLS_PLAN_SUBJECT_H_
#define STOWAGE_TOOLS_PLAN_SUBJECT_H_

// The step that `stowage plan` plans: of a built-in model, of an ONNX file, or a graph as it
// is; or that of the largest batch, sequence or rank that a budget fits.
//
//   Result<Subject> subject = ReadSubject(flags, options, on_choice);
//   Result<PlannedStep> planned = PlanSharded(*subject);

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/bytes.h"
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
  std::string max;  // a setting, whose largest value is looked for
  bool explain = false;
  bool list_params = false;
  bool traffic = false;
  std::string roofline;
  bool json = false;
  bool evaluate = false;  // of a built-in model, also its evaluation
};

/// A training step, or a graph as it is.
struct Subject {
  std::optional<StepSpec> spec;             // of a built-in model
  std::optional<TrainingPlanner> training;  // of that, or of a file's model
  std::unique_ptr<StepPlanner> graph;       // of a graph as it is
  std::optional<OnnxStep> onnx;             // of a file
  std::optional<Canonicalized> canonical;  // of a file's model, to be explained
  RankPlan ranks;

  StepPlanner& planner() { return training ? training->step() : *graph; }
  // What micro-batches are made of: the part of the rank that is planned.
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

/// Plans the step with the least sharding of those to try that fits the budget. Where none
/// does, the last one's error, which is the subject's then.
Result<PlannedStep> PlanSharded(Subject& subject);

/// Finds the largest value, of what --max names, that fits the budget, and the step of it.
/// Sets in `flags` what is left to a default otherwise. Errors, which name --max: those of
/// ReadSubject and FindLargest; kInvalidArgument where nothing bounds the value, or it is
/// given.
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
