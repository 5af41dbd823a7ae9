#include "tools/budget.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "planner/weight_layout.h"

namespace stowage::tools {

Error RefusalOf(const Graph& graph, const Plan& plan, PlanOptions options,
                Bytes budget) {
  const WeightLayout layout = WeightLayout::FromForward(graph, plan);
  options.weights = &layout;
  options.budget = budget;
  const Result<Plan> refused = PlanMemory(graph, options);
  STOWAGE_CHECK(!refused.ok());
  return refused.error();
}

nlohmann::ordered_json RefusalJson(const Report& report, const Error& error) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["error"] = error.message;
  json["minimum_budgets"] = {{"none", report.arena},
                             {"recompute", nullptr},
                             {"micro_batches", nullptr}};
  return json;
}

}  // namespace stowage::tools
