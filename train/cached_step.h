#ifndef STOWAGE_TRAIN_CACHED_STEP_H_
#define STOWAGE_TRAIN_CACHED_STEP_H_

// A fitted step as a plan cache keeps it: its graph (ir/graph_bytes.h), its plan,
// and what it costs, in bytes that are quick to read.
//
//   cache.Store(key, FittedStepToBytes(step));
//   Result<FittedStep> again = FittedStepFromBytes(*cache.Find(key).content);

#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/fit/fitted_step.h"

namespace stowage {

/// What is written reads back equal, but for the passes, which are of the run
/// that planned.
std::string FittedStepToBytes(const FittedStep& step);

/// Reads what FittedStepToBytes wrote, and validates graph and plan like any
/// others, but for one thing: that the fingerprint is the graph's, which costs as
/// much as all the rest, is left to the digest that a cache keeps over both.
/// Errors, kInvalidArgument: the bytes are no fitted step, or its plan breaks a
/// law (ValidatePlan).
Result<FittedStep> FittedStepFromBytes(std::string_view bytes);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_CACHED_STEP_H_
