#ifndef STOWAGE_TOOLS_BUDGET_H_
#define STOWAGE_TOOLS_BUDGET_H_

// What is said of a plan that fits its budget by some lever, and of one that does
// not fit.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "planner/micro_batches.h"
#include "tools/levers.h"

namespace stowage::tools {

/// `error`, with which the planner of `levers` refused a budget, and the smallest
/// budgets that work: with the levers that are allowed, with each one alone, and
/// with all.
Result<nlohmann::ordered_json> RefusalJson(Levers& levers, const Error& error);

/// What a step does to fit its budget, as `plan` and `train` print it for
/// people; "" when there is nothing to do.
std::string FittedText(const MicroBatchedPlan& plan);

/// What no choice that fits can do with less than, in percent of the step's cost
/// without recomputation.
double LeastPercent(const MicroBatchedPlan& plan);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_BUDGET_H_
