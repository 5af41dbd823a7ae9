#ifndef STOWAGE_TOOLS_FRONTIER_H_
#define STOWAGE_TOOLS_FRONTIER_H_

// What every budget costs, as `plan --pareto` prints it: a table, JSON, a picture.
//
//   Result<FrontierTexts> texts = DescribeFrontier(fitter, /*by_time=*/true);
//   std::cout << texts->table;

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "planner/fit/fit.h"

namespace stowage::tools {

struct FrontierTexts {
  std::string table;
  nlohmann::ordered_json json;  // {"frontier": [...]}
  std::string svg;
};

/// Of the step from as it is to the smallest budget, with the levers that are
/// allowed. Costs are nanoseconds if `by_time`, else operations. Errors: those of
/// StepFitter::Frontier.
Result<FrontierTexts> DescribeFrontier(StepFitter& fitter, bool by_time);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_FRONTIER_H_
