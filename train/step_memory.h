#ifndef STOWAGE_TRAIN_STEP_MEMORY_H_
#define STOWAGE_TRAIN_STEP_MEMORY_H_

// Measures the memory of training steps: the bytes that a step needs for its params, and the
// largest batch, sequence length or LoRA rank whose step fits a budget. No step is run. The results
// follow from plans.
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
  /// Values are multiples of this, and this is the smallest value. Must be at least 1.
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
  /// The next multiple, which does not fit, or nullopt if it exceeds LargestOptions::most.
  std::optional<Above> above = {};
  int plans = 0;  // number of calls of `need_of`
};

/// Returns the largest value whose need is at most `budget`, if needs do not decrease as values
/// increase. The search predicts needs from other needs, so a handful of calls suffice if needs
/// are roughly linear. A plan search may find a smaller need for a slightly larger value. For this
/// reason, the two values after a refused value are tried, and the search continues from one that
/// fits. Makes at most 3 log2(value / multiple) + 8 calls, and at most that number for each such
/// continuation.
///
/// Returns kBudgetTooSmall if the smallest value does not fit, and kInvalidArgument if `options`
/// are out of range. Propagates any error of the smallest value. Propagates errors of other values,
/// except for kInvalidArgument and kUnsupported, with which a model refuses a value as too large.
Result<Largest> FindLargest(
    const std::function<Result<Bytes>(int64_t)>& need_of, Bytes budget,
    const LargestOptions& options = {});

struct ParamBytes {
  int64_t params = 0;   // number of elements of all params
  Bytes weights = 0;    // region of weights, and params in host memory
  Bytes states = 0;     // region of states, and states in host memory
  Bytes gradients = 0;  // maximum over time of params' live gradients

  Bytes total() const { return weights + states + gradients; }
  /// Returns `bytes` per element of the params, or 0 if there are none.
  double per_param(Bytes bytes) const {
    return params == 0
               ? 0
               : static_cast<double>(bytes) / static_cast<double>(params);
  }
};

/// Measures `plan`, which must be the plan of the training step `graph`. A gradient is live until
/// its update, and with gradient accumulation from the first micro-batch on. O(n log n) for n
/// params.
ParamBytes MeasureParamBytes(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_MEMORY_H_
