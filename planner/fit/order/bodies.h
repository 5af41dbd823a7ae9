#ifndef STOWAGE_PLANNER_FIT_ORDER_BODIES_H_
#define STOWAGE_PLANNER_FIT_ORDER_BODIES_H_

// The order of nodes inside the bodies of loops and branches.
//
// The arena of a body is the workspace of its node (planner/plan.h), so that an order in
// which the body needs less is one in which the node does. Outputs of a body lie outside
// of its arena and count nothing.
//
//   STOWAGE_ASSIGN_OR_RETURN(const Graph ordered, OrderBodies(step, options, effort));

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

/// `graph` with the nodes of its bodies, at any depth, in an order in which the body takes
/// a smaller arena, where one is found with so much effort for each (FindMemoryOrder).
/// Bodies that hold collectives stay as they are. Errors: those of reordering a body,
/// which there should be none of. Deterministic.
Result<Graph> OrderBodies(const Graph& graph, const PlanOptions& options,
                          int64_t effort);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_BODIES_H_
