#include "tools/budget.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/strings.h"
#include "planner/fit/offload/offload.h"

namespace stowage::tools {

Result<nlohmann::ordered_json> RefusalJson(Levers& levers, const Error& error) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  STOWAGE_ASSIGN_OR_RETURN(json["minimum_budget_bytes"],
                           levers.SmallestBudget());
  json["error"] = error.message;
  STOWAGE_ASSIGN_OR_RETURN(json["minimum_budgets"], levers.SmallestBudgets());
  return json;
}

double LeastPercent(const MicroBatchedPlan& plan) {
  return plan.cost > 0 ? 100 * plan.made.least_extra_cost / plan.cost : 0;
}

Result<std::optional<Foretold>> Foretell(const std::optional<OpTimes>& times,
                                         Levers& levers,
                                         const MicroBatchedPlan& plan) {
  if (!times) return std::optional<Foretold>();
  STOWAGE_ASSIGN_OR_RETURN(const MicroBatchedPlan given, levers.PlanAsGiven());
  const double without =
      times->StepSeconds(given.made.graph, given.made.plan.arena_bytes());
  const double seconds =
      times->StepSeconds(plan.made.graph, plan.made.plan.arena_bytes());
  const double avoidable =
      1e-9 * (plan.made.extra_cost - plan.made.least_extra_cost);
  const auto percent = [&](double step) {
    return without > 0 ? 100 * (step / without - 1) : 0.0;
  };
  return std::optional<Foretold>(
      {.step_seconds = seconds,
       .extra_percent = percent(seconds),
       .least_percent = percent(seconds - avoidable),
       .estimated = times->CountEstimated(plan.made.graph)});
}

nlohmann::ordered_json ForetoldJson(const std::optional<Foretold>& foretold) {
  using Json = nlohmann::ordered_json;
  return {
      {"predicted_step_seconds",
       foretold ? Json(foretold->step_seconds) : Json()},
      {"predicted_extra_time_percent",
       foretold ? Json(foretold->extra_percent) : Json()},
      {"estimated_op_times", foretold ? Json(foretold->estimated) : Json()}};
}

std::string FittedText(const MicroBatchedPlan& plan,
                       const std::optional<Foretold>& foretold) {
  constexpr size_t kMostNamed = 10;
  const RecomputedPlan& made = plan.made;
  std::string text;
  if (foretold) {
    text += StrCat("by the times of its ops a step takes ",
                   Fixed(1e3 * foretold->step_seconds, 3), " ms, ",
                   Fixed(foretold->extra_percent, 2),
                   " % more than without a lever");
    if (foretold->estimated > 0) {
      text += StrCat("; ", foretold->estimated, " of ", made.graph.num_nodes(),
                     " are estimated");
    }
    text += "\n";
  }
  if (plan.pieces > 1) {
    text += StrCat("the batch is taken in ", plan.pieces, " pieces\n");
  }
  if (const HostUse use = FindHostUse(made.graph); use.values > 0) {
    text += StrCat(use.values, " values are kept in ",
                   FormatBytes(made.plan.host_bytes()), " (",
                   made.plan.host_bytes(), " bytes) of the host's memory, ",
                   FormatBytes(use.bytes_per_step), " copied a step\n");
  }
  if (made.recomputed_nodes == 0) return text;
  text += StrCat(
      made.recomputed_nodes, " nodes run again, ", Fixed(made.extra_percent, 3),
      " % more operations; no choice that fits needs less than ",
      Fixed(foretold ? foretold->least_percent : LeastPercent(plan), 3),
      foretold ? " % more time\n" : " %\n");
  const size_t named = std::min(made.remade.size(), kMostNamed);
  for (size_t k = 0; k < named; ++k) {
    const Remade& remade = made.remade[k];
    text += StrCat("  ", remade.name, ": frees ", FormatBytes(remade.freed),
                   " for ", Fixed(100 * remade.flops / plan.flops, 3), " %");
    if (remade.times > 1) text += StrCat(", ", remade.times, " times");
    text += "\n";
  }
  if (named < made.remade.size()) {
    text += StrCat("  and ", made.remade.size() - named, " more\n");
  }
  return text;
}

}  // namespace stowage::tools
