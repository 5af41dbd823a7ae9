#ifndef STOWAGE_REPORT_FRONTIER_SVG_H_
#define STOWAGE_REPORT_FRONTIER_SVG_H_

// The Pareto frontier as an image: the x axis is the budget, the y axis the
// overhead of the plan that fits it, on a scale on which both one and a hundred
// percent are visible. The curve steps down where a larger budget is cheaper;
// nothing fits left of the last step. If known, the lower bound of any plan's
// cost is drawn below. Hovering over a point shows its note.
//
//   FrontierToSvg({.title = "gpt-nano", .cost = "more operations"}, marks);

#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"

namespace stowage {

struct FrontierMark {
  Bytes budget = 0;                          // the smallest budget that this
                                             // fits
  double percent = 0;                        // extra
  std::optional<double> least_percent = {};  // proven
  std::string note = {};
};

struct FrontierLabels {
  std::string title;
  std::string cost;  // the unit of the percents: "more operations"
};

/// Precondition: `marks` are by decreasing budget. Linear.
std::string FrontierToSvg(const FrontierLabels& labels,
                          std::span<const FrontierMark> marks);

}  // namespace stowage

#endif  // STOWAGE_REPORT_FRONTIER_SVG_H_
