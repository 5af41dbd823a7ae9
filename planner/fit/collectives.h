#ifndef STOWAGE_PLANNER_FIT_COLLECTIVES_H_
#define STOWAGE_PLANNER_FIT_COLLECTIVES_H_

// Whether ranks meet in a graph: what every rank must run as often, and in the same order
// (OpDef::collective), levers leave where it is.
//
//   if (HoldsCollectives(body)) return;

#include "ir/graph.h"

namespace stowage::fit {

/// Whether a node of `graph`, or one in a body at any depth, is a collective. Linear.
bool HoldsCollectives(const Graph& graph);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_COLLECTIVES_H_
