#include "tools/frontier.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "report/svg.h"
#include "report/text.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;

// A point, in percent of the cost of the unmodified step.
struct Shown {
  const ParetoPoint& of;
  double percent = 0;
  double least = 0;
  double step_cost = 0;
  bool by_time = false;
};

Json PointJson(const Shown& shown) {
  const Price& price = shown.of.price;
  const auto if_timed = [&](double value) {
    return shown.by_time ? Json(value) : Json();
  };
  return {{"budget_bytes", shown.of.arena},
          {"recompute_flops_percent", price.extra_percent},
          {"recompute_least_flops_percent",
           shown.by_time ? Json() : Json(shown.least)},
          {"recomputed_nodes", price.recomputed_nodes},
          {"micro_batches", price.micro_batches},
          {"offloaded_values", price.host.values},
          {"offload_bytes_per_step", price.host.bytes_per_step},
          {"predicted_step_seconds", if_timed(1e-9 * shown.step_cost)},
          {"predicted_extra_time_percent", if_timed(shown.percent)},
          {"recompute_least_time_percent", if_timed(shown.least)}};
}

std::string HeadingOf(bool by_time, bool copies) {
  return StrCat("        budget  ", by_time ? "  more time  " : "",
                "  more operations    at least    nodes    micro-batches",
                copies ? "    bytes copied" : "", "\n");
}

std::string ToRow(const Shown& shown, bool copies) {
  const Price& price = shown.of.price;
  const std::string time =
      shown.by_time ? StrCat(PadLeft(Fixed(shown.percent, 3), 11), " %") : "";
  const std::string copied =
      copies ? PadLeft(StrCat(price.host.bytes_per_step), 16) : "";
  return StrCat(PadLeft(StrCat(shown.of.arena), 14), time,
                PadLeft(Fixed(price.extra_percent, 3), 17), " %",
                PadLeft(Fixed(shown.least, 3), 10), " %",
                PadLeft(StrCat(price.recomputed_nodes), 9),
                PadLeft(StrCat(price.micro_batches), 10), copied, "\n");
}

FrontierMark ToMark(const Shown& shown) {
  const Price& price = shown.of.price;
  FrontierMark mark{.budget = shown.of.arena,
                    .percent = shown.percent,
                    .least_percent = shown.least};
  mark.note =
      StrCat(FormatBytes(shown.of.arena), " (", shown.of.arena, " bytes)\n",
             Fixed(shown.by_time ? shown.percent : price.extra_percent, 3),
             " % more ", shown.by_time ? "time" : "operations", ", at least ",
             Fixed(shown.least, 3), " %\n", price.recomputed_nodes,
             " nodes run again, the batch in ", price.micro_batches,
             price.micro_batches == 1 ? " micro-batch" : " micro-batches");
  if (price.host.values > 0) {
    mark.note += StrCat("\n", price.host.values, " values on the host, ",
                        FormatBytes(price.host.bytes_per_step), " copied");
  }
  return mark;
}

}  // namespace

Result<FrontierTexts> DescribeFrontier(StepFitter& fitter,
                                       const std::optional<OpTimes>& times) {
  const bool by_time = times.has_value();
  STOWAGE_ASSIGN_OR_RETURN(const FittedStep given, fitter.AsGiven());
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<ParetoPoint> frontier,
                           fitter.Frontier());
  const bool copies = std::ranges::any_of(
      frontier,
      [](const ParetoPoint& each) { return each.price.host.values > 0; });
  FrontierTexts texts{.table = HeadingOf(by_time, copies),
                      .json = {{"frontier", Json::array()}},
                      .svg = {}};
  std::vector<FrontierMark> marks;
  const double whole = std::max(given.cost, 1.0);
  // With fused nodes, as it runs; the costs of optimizations are of single ops.
  double of_given = given.cost;
  if (times) {
    const std::vector<double> of_nodes =
        times->CostFunction(std::nullopt)(given.graph);
    of_given = std::accumulate(of_nodes.begin(), of_nodes.end(), 0.0);
  }
  for (const ParetoPoint& each : frontier) {
    const Shown shown{.of = each,
                      .percent = 100 * each.price.extra_cost / whole,
                      .least = 100 * each.price.least_extra_cost / whole,
                      .step_cost = of_given + each.price.extra_cost,
                      .by_time = by_time};
    texts.table += ToRow(shown, copies);
    texts.json["frontier"].push_back(PointJson(shown));
    marks.push_back(ToMark(shown));
  }
  const std::string_view cost = by_time  ? "more time"
                                : copies ? "more operations, copies priced"
                                         : "more operations";
  texts.svg = FrontierToSvg(
      {.title = given.graph.name(), .cost = std::string(cost)}, marks);
  return texts;
}

}  // namespace stowage::tools
