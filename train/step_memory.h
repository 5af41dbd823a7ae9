#ifndef STOWAGE_TRAIN_STEP_MEMORY_H_
#define STOWAGE_TRAIN_STEP_MEMORY_H_

// Measures the memory of training steps from their plans, without running them. MeasureParamBytes
// returns the bytes that a step needs for its params. FindLargest returns the largest batch,
// sequence length or LoRA rank whose step fits a budget.
//
//   const ParamBytes bytes = MeasureParamBytes(step.graph, step.plan);
//   bytes.per_param(bytes.total());   // 5.66
//
//   const auto need_of = [&](int64_t batch) -> Result<Bytes> {
//     STOWAGE_ASSIGN_OR_RETURN(TrainingPlanner planner,
//                              TrainingPlanner::Make(MySpec(batch), device));
//     return planner.step().SmallestBudget();
//   };
//   Result<Largest> largest = FindLargest(need_of, 4'000'000'000);
//   largest->value;               // the largest value that fits
//   largest->above->need.value()  // the budget that the next value needs

#include <cstdint>
#include <functional>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

struct LargestOptions {
  /// All values are multiples of this number, which is also the smallest value. Must be at least 1.
  int64_t multiple = 1;
  /// The maximum value. Must be at least `multiple`.
  int64_t most = int64_t{1} << 40;
};

struct Largest {
  struct Above {
    int64_t value = 0;
    /// The smallest budget that `value` fits, or the model's error.
    Result<Bytes> need = Bytes{0};
  };

  int64_t value = 0;
  Bytes need = 0;  // the smallest budget that `value` fits
  /// The next multiple after `value`, which does not fit. Absent if it exceeds
  /// LargestOptions::most.
  std::optional<Above> above = {};
  int plans = 0;  // number of calls of `need_of`
};

/// Returns the largest value whose need is at most `budget`, if needs do not decrease as values
/// increase. `need_of(value)` must return the smallest budget with which the step of `value` fits.
/// The search interpolates between known needs, so a handful of calls suffice if needs are roughly
/// linear. Planning may find a smaller need for a slightly larger value. For this reason, if a
/// value does not fit, the two values after it are tried, and the search continues from the first
/// one that fits. Makes at most 3 log2(value / multiple) + 8 calls of `need_of`, and at most that
/// number for each continuation.
///
/// Returns kBudgetTooSmall if the smallest value does not fit, and kInvalidArgument if `options`
/// are out of range. Propagates errors of `need_of`. For values above the smallest,
/// kInvalidArgument and kUnsupported instead mean that the value is too large.
Result<Largest> FindLargest(
    const std::function<Result<Bytes>(int64_t)>& need_of, Bytes budget,
    const LargestOptions& options = {});

struct ParamBytes {
  int64_t params = 0;   // number of elements of all params
  Bytes weights = 0;    // region of weights, and params in host memory
  Bytes states = 0;     // region of states, and states in host memory
  Bytes gradients = 0;  // maximum over time of params' live gradients

  Bytes total() const { return weights + states + gradients; }
  /// Returns `bytes` divided by the number of elements of all params, or 0 if there are no params.
  double per_param(Bytes bytes) const {
    return params == 0
               ? 0
               : static_cast<double>(bytes) / static_cast<double>(params);
  }
};

/// Measures `plan`, which must be the plan of the training step `graph`. A gradient is live until
/// the update of its param. With gradient accumulation, it is live from the first micro-batch on.
/// O(n log n) for n params.
ParamBytes MeasureParamBytes(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_MEMORY_H_
