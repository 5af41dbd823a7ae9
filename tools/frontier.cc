#include "tools/frontier.h"

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "planner/fit/offload/offload_plan.h"
#include "report/format.h"
#include "report/frontier_svg.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;

// A point in percent of the cost of the step as it is.
struct Shown {
  const OffloadedPoint& of;
  double percent = 0;
  double least = 0;
  double step_cost = 0;
  bool by_time = false;
};

Json ToJson(const Shown& shown) {
  const auto& [pieces, point, host] = shown.of;
  const auto if_timed = [&](double value) {
    return shown.by_time ? Json(value) : Json();
  };
  return {{"budget_bytes", point.arena},
          {"recompute_flops_percent", point.extra_percent},
          {"recompute_least_flops_percent",
           shown.by_time ? Json() : Json(shown.least)},
          {"recomputed_nodes", point.recomputed_nodes},
          {"micro_batches", pieces},
          {"offloaded_values", host.values},
          {"offload_bytes_per_step", host.bytes_per_step},
          {"predicted_step_seconds", if_timed(1e-9 * shown.step_cost)},
          {"predicted_extra_time_percent", if_timed(shown.percent)},
          {"recompute_least_time_percent", if_timed(shown.least)}};
}

std::string HeadingOf(bool by_time, bool copies) {
  return StrCat("        budget  ", by_time ? "  more time  " : "",
                "  more operations    at least    nodes    pieces",
                copies ? "    bytes copied" : "", "\n");
}

std::string ToRow(const Shown& shown, bool copies) {
  const auto& [pieces, point, host] = shown.of;
  const std::string time =
      shown.by_time ? StrCat(PadLeft(Fixed(shown.percent, 3), 11), " %") : "";
  const std::string copied =
      copies ? PadLeft(StrCat(host.bytes_per_step), 16) : "";
  return StrCat(PadLeft(StrCat(point.arena), 14), time,
                PadLeft(Fixed(point.extra_percent, 3), 17), " %",
                PadLeft(Fixed(shown.least, 3), 10), " %",
                PadLeft(StrCat(point.recomputed_nodes), 9),
                PadLeft(StrCat(pieces), 10), copied, "\n");
}

FrontierMark ToMark(const Shown& shown) {
  const auto& [pieces, point, host] = shown.of;
  FrontierMark mark{.budget = point.arena,
                    .percent = shown.percent,
                    .least_percent = shown.least};
  mark.note =
      StrCat(FormatBytes(point.arena), " (", point.arena, " bytes)\n",
             Fixed(shown.by_time ? shown.percent : point.extra_percent, 3),
             " % more ", shown.by_time ? "time" : "operations", ", at least ",
             Fixed(shown.least, 3), " %\n", point.recomputed_nodes,
             " nodes run again, the batch in ", pieces,
             pieces == 1 ? " piece" : " pieces");
  if (host.values > 0) {
    mark.note += StrCat("\n", host.values, " values on the host, ",
                        FormatBytes(host.bytes_per_step), " copied");
  }
  return mark;
}

}  // namespace

Result<FrontierTexts> DescribeFrontier(Levers& levers, bool by_time) {
  STOWAGE_ASSIGN_OR_RETURN(const MicroBatchedPlan given, levers.PlanAsGiven());
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<OffloadedPoint> frontier,
                           levers.Frontier());
  const bool copies = std::ranges::any_of(
      frontier,
      [](const OffloadedPoint& each) { return each.host.values > 0; });
  FrontierTexts texts{.table = HeadingOf(by_time, copies),
                      .json = {{"frontier", Json::array()}},
                      .svg = {}};
  std::vector<FrontierMark> marks;
  const double whole = std::max(given.cost, 1.0);
  for (const OffloadedPoint& each : frontier) {
    const Shown shown{.of = each,
                      .percent = 100 * each.point.extra_cost / whole,
                      .least = 100 * each.point.least_extra_cost / whole,
                      .step_cost = given.cost + each.point.extra_cost,
                      .by_time = by_time};
    texts.table += ToRow(shown, copies);
    texts.json["frontier"].push_back(ToJson(shown));
    marks.push_back(ToMark(shown));
  }
  const std::string_view cost = by_time  ? "more time"
                                : copies ? "more operations, copies priced"
                                         : "more operations";
  texts.svg = FrontierToSvg(
      {.title = given.made.graph.name(), .cost = std::string(cost)}, marks);
  return texts;
}

}  // namespace stowage::tools
