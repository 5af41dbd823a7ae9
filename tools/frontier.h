#ifndef STOWAGE_TOOLS_FRONTIER_H_
#define STOWAGE_TOOLS_FRONTIER_H_

// Describes the Pareto frontier of a step's budgets and costs as a table, as JSON and as an SVG
// image, for `stowage plan --pareto`.
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

/// Returns the frontier of `fitter`, from the step without memory optimizations to the smallest
/// feasible budget. `times` must be the op times of `fitter`, if it has any. Costs are then in
/// nanoseconds, and otherwise in operations. Propagates errors of StepFitter::Frontier.
Result<FrontierTexts> DescribeFrontier(StepFitter& fitter,
                                       const std::optional<OpTimes>& times);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_FRONTIER_H_
