#ifndef STOWAGE_TOOLS_BUDGET_H_
#define STOWAGE_TOOLS_BUDGET_H_

// What is said when a plan does not fit its budget.

#include <nlohmann/json_fwd.hpp>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "report/numbers.h"

namespace stowage::tools {

/// The planner's own refusal of `budget`, for a graph whose plan, made with
/// `options`, is larger.
Error RefusalOf(const Graph& graph, const Plan& plan, PlanOptions options,
                Bytes budget);

/// `error`, and the smallest budget that works with each lever; null where this
/// version has no such lever.
nlohmann::ordered_json RefusalJson(const Report& report, const Error& error);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_BUDGET_H_
