#ifndef STOWAGE_TOOLS_BUDGET_H_
#define STOWAGE_TOOLS_BUDGET_H_

// What is said of a plan that fits its budget by some lever, and of one that does
// not fit.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "planner/fit/fit.h"
#include "planner/fit/op_times.h"

namespace stowage::tools {

/// `error`, with which `fitter` refused a budget, and the smallest budgets that
/// work: with the levers that are allowed, and "minimum_budgets": {"none",
/// "recompute", "micro_batches", "offload", "all"}, with each lever alone and with
/// all of them, whatever is allowed; null where there is no `batch` to cut.
Result<nlohmann::ordered_json> RefusalJson(StepFitter& fitter,
                                           std::optional<int64_t> batch,
                                           const Error& error);

/// `error`, with which `fitter` refused a budget, with the same smallest budgets in words,
/// each with the flag that has it.
Error WithSmallestBudgets(StepFitter& fitter, std::optional<int64_t> batch,
                          Error error);

/// What op times foretell of a plan that was chosen by them.
struct Foretold {
  double step_seconds = 0;
  /// Beyond the step of fewest pieces, without recomputation.
  double extra_percent = 0;
  /// Likewise, of the same step if no choice of what runs again took less time.
  double least_percent = 0;
  int estimated = 0;  // ops that the times do not have as they are
};

/// Absent without times.
Result<std::optional<Foretold>> Foretell(const std::optional<OpTimes>& times,
                                         StepFitter& fitter,
                                         const FittedStep& step);

/// {"predicted_step_seconds", "predicted_extra_time_percent",
/// "estimated_op_times"}, null where nothing is foretold.
nlohmann::ordered_json ForetoldJson(const std::optional<Foretold>& foretold);

/// What a step does to fit its budget, as `plan` and `train` print it for
/// people; "" when there is nothing to do.
std::string FittedText(const FittedStep& step,
                       const std::optional<Foretold>& foretold);

/// What no choice that fits can do with less than, in percent of the step's cost
/// without recomputation.
double LeastPercent(const FittedStep& step);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_BUDGET_H_
