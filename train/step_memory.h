#ifndef STOWAGE_TRAIN_STEP_MEMORY_H_
#define STOWAGE_TRAIN_STEP_MEMORY_H_

// The memory of training steps: the bytes that a step keeps for its params, and the largest
// batch, sequence or rank whose step fits a budget, found by planning alone.
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
//   largest->value;               // fits
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
  /// Values are multiples of this; the smallest is this itself.
  int64_t multiple = 1;
  /// The maximum value; at least `multiple`.
  int64_t most = int64_t{1} << 40;
};

struct Largest {
  struct Above {
    int64_t value = 0;
    /// The smallest budget that it fits, or the model's error.
    Result<Bytes> need = Bytes{0};
  };

  int64_t value = 0;
  Bytes need = 0;  // the smallest budget that it fits
  /// The next multiple, which does not fit; absent if it is above `most`.
  std::optional<Above> above = {};
  int plans = 0;  // calls of `need_of`
};

/// The largest value whose need is at most `budget`, if needs do not fall as values rise.
/// Predicts needs from others, so that a handful of calls suffice if they are about linear. A
/// plan search may find less for a slightly larger value: the two after a refused one are
/// tried, and the search continues from one that fits. At most 3 log2(value / multiple) + 8
/// calls, and as many for each such continuation. Errors: kBudgetTooSmall if the smallest
/// value does not fit; the smallest value's own error; any other value's error but
/// kInvalidArgument and kUnsupported, by which a model refuses a value as too large.
Result<Largest> FindLargest(
    const std::function<Result<Bytes>(int64_t)>& need_of, Bytes budget,
    const LargestOptions& options = {});

struct ParamBytes {
  int64_t params = 0;   // elements of all params
  Bytes weights = 0;    // the region of weights, and params on the host
  Bytes states = 0;     // the region of states, and states on the host
  Bytes gradients = 0;  // maximum over time of the live gradients of params

  Bytes total() const { return weights + states + gradients; }
  /// `bytes` per element of the params; 0 if there are none.
  double per_param(Bytes bytes) const {
    return params == 0
               ? 0
               : static_cast<double>(bytes) / static_cast<double>(params);
  }
};

/// Measures `plan`, the plan of the training step `graph`. A gradient is live until its
/// update, and with micro-batches from the first one on. O(n log n) in the params.
ParamBytes MeasureParamBytes(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_STEP_MEMORY_H_
