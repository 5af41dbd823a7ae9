#ifndef STOWAGE_TOOLS_BUDGET_H_
#define STOWAGE_TOOLS_BUDGET_H_

// Texts and JSON about a plan and its budget: the optimizations that make it fit, their cost,
// the smallest budgets if it does not fit, and the fit of every optimizer.
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

/// `error`, with which `fitter` refused a budget, as JSON with the smallest budgets that work:
/// with the allowed optimizations, and in "minimum_budgets": {"none", "recompute",
/// "micro_batches", "offload", "all"} with each optimization alone and all of them; null without
/// a `batch` to split. Also appends them to the text of `error`, as WithSmallestBudgets does.
Result<nlohmann::ordered_json> RefusalJson(StepFitter& fitter,
                                           std::optional<int64_t> batch,
                                           Error* error);

/// `error`, with which `fitter` refused a budget, followed by the smallest budgets and the flags
/// that reach them.
Error WithSmallestBudgets(StepFitter& fitter, std::optional<int64_t> batch,
                          Error error);

/// The times of a plan predicted by measured op times.
struct Predicted {
  double step_seconds = 0;
  /// Overhead over the step with the fewest micro-batches and no recomputation.
  double extra_percent = 0;
  /// A lower bound of the overhead over all choices of recomputation.
  double least_percent = 0;
  int estimated = 0;  // ops whose time was estimated from others
};

/// Predicts the times of `step`; absent without op times.
Result<std::optional<Predicted>> Predict(const std::optional<OpTimes>& times,
                                         StepFitter& fitter,
                                         const FittedStep& step);

/// {"predicted_step_seconds", "predicted_extra_time_percent", "estimated_op_times"}; null
/// without a prediction.
nlohmann::ordered_json PredictedJson(const std::optional<Predicted>& predicted);

/// The optimizations of a step, as `plan` and `train` print them; "" if there are none.
std::string FittedText(const FittedStep& step,
                       const std::optional<Predicted>& predicted);

/// The values that micro-batches change under --allow-batch-change, as `plan` and `train` print
/// them, a line each; "" if there are none.
std::string BatchChangesText(const TrainingPlanner& planner,
                             const FittedStep& step);

/// A lower bound of the overhead of any choice that fits, in percent of the step's cost without
/// recomputation.
double LeastPercent(const FittedStep& step);

/// The step with one of the optimizers, as --fit-optimizer prints it.
struct OptimizerFit {
  std::string_view name;
  /// The reason why it cannot train this model; "" if it can.
  std::string refused = {};
  bool fits = false;
  Bytes arena = 0;        // the smallest budget if it does not fit
  ParamBytes bytes = {};  // of that plan, or of the unmodified step
};

/// Plans the step of `spec` with each optimizer of NamedOptimizers, for kernels with the
/// requirements `device`. Takes the time of planning as many steps.
std::vector<OptimizerFit> FitOptimizers(const TrainingSpec& spec,
                                        const DeviceNeeds& device);

/// Prints them as a table, or as {"budget_bytes": ..., "optimizers": [...]}.
void PrintOptimizerFits(const std::vector<OptimizerFit>& fits,
                        std::optional<Bytes> budget, bool as_json);

/// {"weights": ..., "states": ..., "gradients": ..., "total": ...}, per element of the params.
nlohmann::ordered_json ParamBytesJson(const ParamBytes& bytes);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_BUDGET_H_
