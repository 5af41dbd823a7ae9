#ifndef STOWAGE_REPORT_FRONTIER_SVG_H_
#define STOWAGE_REPORT_FRONTIER_SVG_H_

// What every budget costs, as an image: the budget to the right, the extra cost
// of the plan that fits it upwards, on a scale on which one percent and a
// hundred are both seen. A step down where a larger budget is cheaper; left of
// the last step nothing fits. Below, where it is known, what no plan can cost
// less than. Hovering over a point shows its note.
//
//   FrontierToSvg({.title = "gpt-nano", .cost = "more operations"}, marks);

#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"

namespace stowage {

struct FrontierMark {
  Bytes budget = 0;                          // the smallest that this fits
  double percent = 0;                        // extra
  std::optional<double> least_percent = {};  // proven
  std::string note = {};
};

struct FrontierLabels {
  std::string title;
  std::string cost;  // what the percents are of: "more operations"
};

/// Precondition: `marks` are by falling budget. Linear.
std::string FrontierToSvg(const FrontierLabels& labels,
                          std::span<const FrontierMark> marks);

}  // namespace stowage

#endif  // STOWAGE_REPORT_FRONTIER_SVG_H_
