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

/// Returns `error`, the kBudgetTooSmall error of `fitter`, as JSON with the smallest feasible
/// budgets. "minimum_budget_bytes" is the smallest budget under the allowed optimizations.
/// "minimum_budgets": {"none", "recompute", "micro_batches", "offload", "all"} are the smallest
/// budgets with only this optimization, with none and with all. "micro_batches" is null if there is
/// no `batch` to split. Also appends the budgets to the message of `error`, as WithSmallestBudgets
/// does. Propagates errors of StepFitter::SmallestBudget.
Result<nlohmann::ordered_json> RefusalJson(StepFitter& fitter,
                                           std::optional<int64_t> batch,
                                           Error* error);

/// Returns `error`, the kBudgetTooSmall error of `fitter`, with the smallest feasible budgets, and
/// the flags with which they are feasible, appended to its message. If these budgets cannot be
/// computed, returns that error instead.
Error WithSmallestBudgets(StepFitter& fitter, std::optional<int64_t> batch,
                          Error error);

/// The times of a plan, predicted from measured op times.
struct Predicted {
  double step_seconds = 0;
  /// The additional time compared with the step without memory optimizations (StepFitter::AsGiven).
  double extra_percent = 0;
  /// A lower bound of extra_percent over all choices of recomputation.
  double least_percent = 0;
  int estimated = 0;  // ops whose time was estimated from others
};

/// Predicts the times of `step`, a step of `fitter`. Returns nullopt if `times` is absent.
/// Propagates errors of StepFitter::AsGiven.
Result<std::optional<Predicted>> Predict(const std::optional<OpTimes>& times,
                                         StepFitter& fitter,
                                         const FittedStep& step);

/// Returns {"predicted_step_seconds", "predicted_extra_time_percent", "estimated_op_times"}. The
/// values are null if `predicted` is absent.
nlohmann::ordered_json PredictedJson(const std::optional<Predicted>& predicted);

/// Returns a description of the memory optimizations of a step, as `stowage plan` and `train` print
/// it, or "" if the step has none and `predicted` is absent.
std::string FittedText(const FittedStep& step,
                       const std::optional<Predicted>& predicted);

/// Returns one line for each value whose result the micro-batches of `step` change
/// (TrainingPlanner::BatchChanges), as `stowage plan` and `train` print it, or "" if there are
/// none. At most 5 values are listed.
std::string BatchChangesText(const TrainingPlanner& planner,
                             const FittedStep& step);

/// Returns a lower bound on the overhead of every choice that fits, in percent of the step's cost
/// without recomputation.
double LeastPercent(const FittedStep& step);

/// The memory of the step with the optimizer `name`, as --fit-optimizer prints it.
struct OptimizerFit {
  std::string_view name;
  /// The reason why the optimizer cannot train this model, or "" if it can.
  std::string refused = {};
  bool fits = false;
  Bytes arena = 0;  // of the plan; if none fits, the smallest feasible budget
  ParamBytes bytes = {};  // of the plan; if none fits, of the unmodified step
};

/// Plans the step of `spec` with each optimizer of NamedOptimizers (autodiff/optimizer.h), for
/// kernels with the requirements `device`.
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
