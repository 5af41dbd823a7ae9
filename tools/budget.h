#ifndef STOWAGE_TOOLS_BUDGET_H_
#define STOWAGE_TOOLS_BUDGET_H_

// Describes a plan and its budget as text and JSON: the optimizations that make the plan fit, their
// cost, the smallest feasible budgets if it does not fit, and the memory of the step with each
// optimizer.
//
//   const std::vector<OptimizerFit> fits = FitOptimizers(spec, device);
//   PrintOptimizerFits(fits, spec.budget, /*as_json=*/false);

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

/// Returns `error`, with which `fitter` refused a budget, as JSON with the smallest feasible
/// budgets. These are the smallest budget under the allowed optimizations and, in
/// "minimum_budgets": {"none", "recompute", "micro_batches", "offload", "all"}, the smallest
/// budgets with one optimization and with all of them. "micro_batches" is null without a `batch` to
/// split. Also appends the budgets to the message of `error`, as WithSmallestBudgets does.
Result<nlohmann::ordered_json> RefusalJson(StepFitter& fitter,
                                           std::optional<int64_t> batch,
                                           Error* error);

/// Returns `error`, with which `fitter` refused a budget, followed by the smallest feasible budgets
/// and the flags that reach them.
Error WithSmallestBudgets(StepFitter& fitter, std::optional<int64_t> batch,
                          Error error);

/// The times of a plan, predicted from measured op times.
struct Predicted {
  double step_seconds = 0;
  /// Overhead over the step with the fewest micro-batches and no recomputation.
  double extra_percent = 0;
  /// A lower bound of the overhead over all choices of recomputation.
  double least_percent = 0;
  int estimated = 0;  // ops whose time was estimated from others
};

/// Predicts the times of `step`. The result is absent if `times` is.
Result<std::optional<Predicted>> Predict(const std::optional<OpTimes>& times,
                                         StepFitter& fitter,
                                         const FittedStep& step);

/// Returns {"predicted_step_seconds", "predicted_extra_time_percent", "estimated_op_times"}. The
/// values are null without a prediction.
nlohmann::ordered_json PredictedJson(const std::optional<Predicted>& predicted);

/// Returns the optimizations of a step, as `plan` and `train` print them, or "" if there are none.
std::string FittedText(const FittedStep& step,
                       const std::optional<Predicted>& predicted);

/// Returns one line for each value that micro-batches change under --allow-batch-change, as `plan`
/// and `train` print them, or "" if there are none.
std::string BatchChangesText(const TrainingPlanner& planner,
                             const FittedStep& step);

/// Returns a lower bound on the overhead of every choice that fits, in percent of the step's cost
/// without recomputation.
double LeastPercent(const FittedStep& step);

/// The memory of the step with one of the optimizers, as --fit-optimizer prints it.
struct OptimizerFit {
  std::string_view name;
  /// The reason why the optimizer cannot train this model, or "" if it can.
  std::string refused = {};
  bool fits = false;
  Bytes arena = 0;  // of the plan; if none fits, the smallest feasible budget
  ParamBytes bytes = {};  // of the plan; if none fits, of the unmodified step
};

/// Plans the step of `spec` with each optimizer of NamedOptimizers, for kernels with the
/// requirements `device`. Plans one step per optimizer.
std::vector<OptimizerFit> FitOptimizers(const TrainingSpec& spec,
                                        const DeviceNeeds& device);

/// Prints `fits` as a table, or as {"budget_bytes": ..., "optimizers": [...]}.
void PrintOptimizerFits(const std::vector<OptimizerFit>& fits,
                        std::optional<Bytes> budget, bool as_json);

/// Returns {"weights": ..., "states": ..., "gradients": ..., "total": ...}, in bytes per element of
/// the params.
nlohmann::ordered_json ParamBytesJson(const ParamBytes& bytes);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_BUDGET_H_
