#ifndef STOWAGE_TOOLS_BUDGET_H_
#define STOWAGE_TOOLS_BUDGET_H_

// What is said of a plan that fits its budget by recomputation, and of one that
// does not fit.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/recompute.h"

namespace stowage::tools {

/// `error`, with which `planner` refused a budget, and the smallest budgets that
/// work: with the levers that are allowed, and with each one alone. `in_pieces`
/// is that of micro-batches, absent where there is no batch to cut.
Result<nlohmann::ordered_json> RefusalJson(RecomputePlanner& planner,
                                           Recompute allowed,
                                           std::optional<Bytes> in_pieces,
                                           const Error& error);

/// What runs again in a step, as `plan` and `train` print it for people; "" when
/// nothing does.
std::string RecomputeText(const RecomputedPlan& made, double flops);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_BUDGET_H_
