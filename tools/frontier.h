#ifndef STOWAGE_TOOLS_FRONTIER_H_
#define STOWAGE_TOOLS_FRONTIER_H_

// Describes the Pareto frontier of a step's budget and cost, as `plan --pareto` prints it: as a
// table, as JSON and as an SVG image.
//
//   Result<FrontierTexts> texts = DescribeFrontier(fitter, question.op_times);
//   std::cout << texts->table;

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"

namespace stowage::tools {

struct FrontierTexts {
  std::string table;
  nlohmann::ordered_json json;  // {"frontier": [...]}
  std::string svg;
};

/// Returns the frontier from the unmodified step to the smallest feasible budget, under the allowed
/// optimizations. With `times`, which must be the op times of `fitter`, costs are in nanoseconds.
/// Otherwise they are in operations. Propagates errors of StepFitter::Frontier.
Result<FrontierTexts> DescribeFrontier(StepFitter& fitter,
                                       const std::optional<OpTimes>& times);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_FRONTIER_H_
