#ifndef STOWAGE_AUTODIFF_MODEL_STATES_H_
#define STOWAGE_AUTODIFF_MODEL_STATES_H_

// The states that a model writes itself, such as a batch norm's averages, in a step that
// several ranks take: each is to become what one rank would have made of all parts of
// the batch, one after the other.
//
//   Result<Graph> joined = JoinModelStates(step, /*ranks=*/4);

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// `step` with every lerp_update of the forward part taken by each rank for all of them,
/// in their order, from what they move to, gathered. Error kUnsupported: the forward
/// part writes a state in another way.
Result<Graph> JoinModelStates(const Graph& step, int64_t ranks);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_MODEL_STATES_H_
