#ifndef STOWAGE_TRAIN_PARAM_BYTES_H_
#define STOWAGE_TRAIN_PARAM_BYTES_H_

// What a training step keeps for its params: beside activations, what fills a budget.
//
//   const ParamBytes bytes = MeasureParamBytes(step.graph, step.plan);
//   bytes.per_param(bytes.total());   // 5.66

#include <cstdint>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

struct ParamBytes {
  int64_t params = 0;  // elements of all params
  Bytes weights = 0;   // the region of weights
  Bytes states = 0;    // the region of states, and states on the host
  Bytes gradients =
      0;  // the most that gradients of params take at any one time

  Bytes total() const { return weights + states + gradients; }
  /// `bytes` for each element of the params; 0 where there are none.
  double per_param(Bytes bytes) const {
    return params == 0
               ? 0
               : static_cast<double>(bytes) / static_cast<double>(params);
  }
};

/// Of a plan that was made for `graph`, a training step's. A gradient that dies at its
/// update counts until then, one that is summed over pieces from the first piece on.
/// Linear, but for sorting gradients by time.
ParamBytes MeasureParamBytes(const Graph& graph, const Plan& plan);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_PARAM_BYTES_H_
