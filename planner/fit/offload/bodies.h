#ifndef STOWAGE_PLANNER_FIT_OFFLOAD_BODIES_H_
#define STOWAGE_PLANNER_FIT_OFFLOAD_BODIES_H_

// What waits inside the bodies of loops and branches, in the host's memory.
//
// The body of a loop that goes back and makes its trips again first is a small training
// step of its own, as is that of the gradient of a branch (planner/fit/recompute/bodies.h).
// What its forward part makes and its gradient reads can be stashed and fetched in it, as
// in any step, which lowers the workspace of the node, and costs copies in every trip. A
// trip stashes for itself alone.
//
//   { a0 = tanh(...)                    { a0 = tanh(...)
//     ...                                 a0~stashed = stash(a0)
//     da0 = tanh_grad(a0, ...) }          ...
//                                         a0~fetched = fetch(a0~stashed)
//                                         da0 = tanh_grad(a0~fetched, ...) }
//
//   if (WaitsInBodies(step)) {
//     Result<Graph> moved = OffloadInBodies(step);
//   }

#include "base/result.h"
#include "ir/graph.h"

namespace stowage::fit {

/// Whether a body of `graph`, at any depth, has something to move. Linear.
bool WaitsInBodies(const Graph& graph);

/// `graph` with all that waits in its bodies, at any depth, in the host's memory meanwhile:
/// of each body all values that FindOffloadable lists, fetched anew for readers that are
/// far apart. Bodies that hold collectives stay as they are. Nodes keep their places,
/// values their names. Linear, but for sorting.
Result<Graph> OffloadInBodies(const Graph& graph);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_OFFLOAD_BODIES_H_
