#include "tools/budget.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/strings.h"

namespace stowage::tools {

Result<nlohmann::ordered_json> RefusalJson(RecomputePlanner& planner,
                                           Recompute allowed,
                                           std::optional<Bytes> in_pieces,
                                           const Error& error) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  STOWAGE_ASSIGN_OR_RETURN(json["minimum_budget_bytes"],
                           planner.SmallestBudget(allowed));
  json["error"] = error.message;
  STOWAGE_ASSIGN_OR_RETURN(const Bytes none,
                           planner.SmallestBudget(Recompute::kNone));
  STOWAGE_ASSIGN_OR_RETURN(const Bytes recompute,
                           planner.SmallestBudget(Recompute::kAuto));
  using Json = nlohmann::ordered_json;
  json["minimum_budgets"] = {
      {"none", none},
      {"recompute", recompute},
      {"micro_batches", in_pieces ? Json(*in_pieces) : Json()}};
  return json;
}

std::string RecomputeText(const RecomputedPlan& made, double flops) {
  if (made.recomputed_nodes == 0) return "";
  constexpr size_t kMostNamed = 10;
  std::string text = StrCat(
      made.recomputed_nodes, " nodes run again, ", Fixed(made.extra_percent, 3),
      " % more operations; no choice that fits ", "needs less than ",
      Fixed(100 * made.least_extra_cost / flops, 3), " %\n");
  const size_t named = std::min(made.remade.size(), kMostNamed);
  for (size_t k = 0; k < named; ++k) {
    const Remade& remade = made.remade[k];
    text += StrCat("  ", remade.name, ": frees ", FormatBytes(remade.freed),
                   " for ", Fixed(100 * remade.flops / flops, 3), " %");
    if (remade.times > 1) text += StrCat(", ", remade.times, " times");
    text += "\n";
  }
  if (named < made.remade.size()) {
    text += StrCat("  and ", made.remade.size() - named, " more\n");
  }
  return text;
}

}  // namespace stowage::tools
