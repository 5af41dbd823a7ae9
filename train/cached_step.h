#ifndef STOWAGE_TRAIN_CACHED_STEP_H_
#define STOWAGE_TRAIN_CACHED_STEP_H_

// A fitted step as a plan cache keeps it: its figures in one line of JSON, then
// the plan file (report/plan_json.h).
//
//   cache.Store(key, FittedStepToText(step));
//   Result<FittedStep> again = FittedStepFromText(*cache.Find(key).content);

#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/fit/fitted_step.h"

namespace stowage {

/// What is written reads back equal, but for the passes, which are of the run
/// that planned.
std::string FittedStepToText(const FittedStep& step);

/// Errors, kInvalidArgument: the text is no fitted step, or its plan breaks a law
/// (ValidatePlan).
Result<FittedStep> FittedStepFromText(std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_CACHED_STEP_H_
