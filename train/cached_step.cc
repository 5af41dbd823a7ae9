#include "train/cached_step.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "planner/validate_plan.h"
#include "report/plan_json.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

Error Fail(std::string_view why) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[plan cache] an entry is no fitted step: ", why)};
}

// Takes the fields of `json` that have the type asked for; the rest stays.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  template <typename T>
  void Take(const char* name, T* value) {
    const auto at = json_.find(name);
    if (at == json_.end() || !Fits(*at, *value)) {
      missing_ = name;
      return;
    }
    *value = at->get<T>();
  }
  Status status() const {
    if (missing_.empty()) return {};
    return Fail(StrCat("its ", Quoted(missing_), " is not as expected"));
  }

 private:
  static bool Fits(const Json& json, double) { return json.is_number(); }
  static bool Fits(const Json& json, int64_t) {
    return json.is_number_integer();
  }
  static bool Fits(const Json& json, int) { return json.is_number_integer(); }
  static bool Fits(const Json& json, const std::string&) {
    return json.is_string();
  }

  const Json& json_;
  std::string missing_;
};

}  // namespace

std::string FittedStepToText(const FittedStep& step) {
  const Price& price = step.price;
  Json json = {{"pieces", price.pieces},
               {"host_values", price.host.values},
               {"host_bytes_per_step", price.host.bytes_per_step},
               {"recomputed_nodes", price.recomputed_nodes},
               {"extra_flops", price.extra_flops},
               {"extra_percent", price.extra_percent},
               {"extra_cost", price.extra_cost},
               {"least_extra_cost", price.least_extra_cost},
               {"flops", step.flops},
               {"cost", step.cost},
               {"remade", Json::array()}};
  if (step.order_bound) json["order_bound"] = *step.order_bound;
  for (const Remade& remade : step.remade) {
    json["remade"].push_back({{"name", remade.name},
                              {"freed", remade.freed},
                              {"flops", remade.flops},
                              {"times", remade.times}});
  }
  return StrCat(json.dump(-1, ' ', false, Json::error_handler_t::replace), "\n",
                PlanToJson(step.plan, step.graph));
}

Result<FittedStep> FittedStepFromText(std::string_view text) {
  const size_t line = text.find('\n');
  if (line == std::string_view::npos) return Fail("it has no plan");
  const Json json = Json::parse(text.substr(0, line), nullptr, false);
  if (!json.is_object()) return Fail("its figures are no JSON object");
  STOWAGE_ASSIGN_OR_RETURN(PlanFile file, PlanFromJson(text.substr(line + 1)));
  FittedStep step;
  step.graph = std::move(file.graph);
  step.plan = std::move(file.plan);
  Reader reader(json);
  reader.Take("pieces", &step.price.pieces);
  reader.Take("host_values", &step.price.host.values);
  reader.Take("host_bytes_per_step", &step.price.host.bytes_per_step);
  reader.Take("recomputed_nodes", &step.price.recomputed_nodes);
  reader.Take("extra_flops", &step.price.extra_flops);
  reader.Take("extra_percent", &step.price.extra_percent);
  reader.Take("extra_cost", &step.price.extra_cost);
  reader.Take("least_extra_cost", &step.price.least_extra_cost);
  reader.Take("flops", &step.flops);
  reader.Take("cost", &step.cost);
  if (json.contains("order_bound")) {
    reader.Take("order_bound", &step.order_bound.emplace());
  }
  STOWAGE_RETURN_IF_ERROR(reader.status());
  const auto all = json.find("remade");
  if (all == json.end() || !all->is_array()) {
    return Fail("its \"remade\" is not as expected");
  }
  for (const Json& each : *all) {
    Remade remade;
    Reader of_remade(each);
    of_remade.Take("name", &remade.name);
    of_remade.Take("freed", &remade.freed);
    of_remade.Take("flops", &remade.flops);
    of_remade.Take("times", &remade.times);
    STOWAGE_RETURN_IF_ERROR(of_remade.status());
    step.remade.push_back(std::move(remade));
  }
  const std::vector<std::string> violations =
      ValidatePlan(step.graph, step.plan);
  if (!violations.empty()) return Fail(violations.front());
  return step;
}

}  // namespace stowage
