#ifndef STOWAGE_TOOLS_FRONTIER_H_
#define STOWAGE_TOOLS_FRONTIER_H_

// The frontier of budget and cost of a step, as `plan --pareto` prints it: a table, JSON, an
// image.
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

/// The frontier from the unmodified step to the smallest budget, with the allowed
/// optimizations. Costs are in nanoseconds with `times`, by which the fitter chooses, else in
/// operations. Errors: those of StepFitter::Frontier.
Result<FrontierTexts> DescribeFrontier(StepFitter& fitter,
                                       const std::optional<OpTimes>& times);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_FRONTIER_H_
