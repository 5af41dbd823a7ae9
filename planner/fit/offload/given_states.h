#ifndef STOWAGE_PLANNER_FIT_OFFLOAD_GIVEN_STATES_H_
#define STOWAGE_PLANNER_FIT_OFFLOAD_GIVEN_STATES_H_

// States in the host's memory because another plan has them there.
//
// Programs over one arena share its states, and what the first keeps on the host is there
// for all of them. Another step fetches such a state before the first node that uses it,
// and stashes it after the last that updates it; what only reads it never stashes it.
//
//   WeightLayout layout = WeightLayout::FromForward(step.graph, step.plan);
//   Result<Graph> other = MoveGivenStates(shorter_step, layout);

#include <span>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/weight_layout.h"

namespace stowage::fit {

/// `graph` with those of its states on the host that `layout` has there. `places` are
/// nodes of `graph`, and become the places where they stand in the new one. Linear.
Result<Graph> MoveGivenStates(const Graph& graph, const WeightLayout& layout,
                              std::span<NodeId> places = {});

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_OFFLOAD_GIVEN_STATES_H_
