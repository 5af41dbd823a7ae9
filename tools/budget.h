#ifndef STOWAGE_TOOLS_BUDGET_H_
#define STOWAGE_TOOLS_BUDGET_H_

// What is said of a plan that fits its budget by some optimization, and of one that does
// not fit.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/lifetimes.h"
#include "train/step_memory.h"
#include "train/training.h"

namespace stowage::tools {

/// `error`, with which `fitter` refused a budget, and the smallest budgets that
/// work: with the optimizations that are allowed, and "minimum_budgets": {"none",
/// "recompute", "micro_batches", "offload", "all"}, with each optimization alone and with
/// all of them, whatever is allowed; null where there is no `batch` to cut. Adds them in
/// words to `error`, as WithSmallestBudgets does.
Result<nlohmann::ordered_json> RefusalJson(StepFitter& fitter,
                                           std::optional<int64_t> batch,
                                           Error* error);

/// `error`, with which `fitter` refused a budget, with the same smallest budgets in words,
/// each with the flag that has it.
Error WithSmallestBudgets(StepFitter& fitter, std::optional<int64_t> batch,
                          Error error);

/// What op times predict of a plan that was chosen by them.
struct Predicted {
  double step_seconds = 0;
  /// Beyond the step of fewest micro-batches, without recomputation.
  double extra_percent = 0;
  /// Likewise, of the same step if no choice of what runs again took less time.
  double least_percent = 0;
  int estimated = 0;  // ops that the times do not have as they are
};

/// Absent without times.
Result<std::optional<Predicted>> Predict(const std::optional<OpTimes>& times,
                                         StepFitter& fitter,
                                         const FittedStep& step);

/// {"predicted_step_seconds", "predicted_extra_time_percent",
/// "estimated_op_times"}, null where nothing is predicted.
nlohmann::ordered_json PredictedJson(const std::optional<Predicted>& predicted);

/// What a step does to fit its budget, as `plan` and `train` print it for
/// people; "" when there is nothing to do.
std::string FittedText(const FittedStep& step,
                       const std::optional<Predicted>& predicted);

/// What micro-batches change where --allow-batch-change lets them, as `plan` and `train`
/// print it for people, a line each; "" where they change nothing.
std::string BatchChangesText(const TrainingPlanner& planner,
                             const FittedStep& step);

/// What no choice that fits can do with less than, in percent of the step's cost
/// without recomputation.
double LeastPercent(const FittedStep& step);

// What the step would take with each optimizer, as --fit-optimizer prints it: a line
// each. It chooses none.
//
//   const std::vector<OptimizerFit> fits = FitOptimizers(spec, device);
//   PrintOptimizerFits(fits, spec.budget, /*as_json=*/false);

struct OptimizerFit {
  std::string_view name;
  /// Why it cannot train this model at all; empty if it can.
  std::string refused = {};
  bool fits = false;
  Bytes arena = 0;        // where it does not fit, the smallest that works
  ParamBytes bytes = {};  // of that plan, or of the step as given
};

/// The step of `spec` with each optimizer of NamedOptimizers in place of its own,
/// otherwise as the spec says, for kernels that need what `device` says. As long as it
/// takes to plan as many steps.
std::vector<OptimizerFit> FitOptimizers(const TrainingSpec& spec,
                                        const DeviceNeeds& device);

/// Prints them as a table, or as {"budget_bytes": ..., "optimizers": [...]}.
void PrintOptimizerFits(const std::vector<OptimizerFit>& fits,
                        std::optional<Bytes> budget, bool as_json);

/// {"weights": ..., "states": ..., "gradients": ..., "total": ...}, for each element of
/// the params.
nlohmann::ordered_json ParamBytesJson(const ParamBytes& bytes);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_BUDGET_H_
