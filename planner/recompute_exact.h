#ifndef STOWAGE_PLANNER_RECOMPUTE_EXACT_H_
#define STOWAGE_PLANNER_RECOMPUTE_EXACT_H_

// The least extra cost for a small step, over all scripts.
//
// A shortest path: from (no node run, nothing there) to (all nodes run), over
// pairs of how many nodes have run and which forward values are there. Between
// two nodes a value may be let go, or its node run again if what it reads is
// there; every step of the way has to fit. Checkmate (Jain et al., MLSys 2020)
// states the same as an integer program; with a dozen values or so the sets can be
// gone through instead.
//
//   std::optional<Script> script = CheapestScript(step, rehearsal, 1 << 20);

#include <optional>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/rehearsal.h"

namespace stowage {

/// Whether the step is small enough: its forward values that may be dropped, 13
/// at most, and the product of their sets with the nodes.
bool IsSmallStep(const Graph& graph, const Rehearsal& rehearsal);

/// The script with the least extra cost whose live bytes stay within
/// `peak`; nothing when there is none. Bytes are as Rehearsal counts them.
/// Precondition: IsSmallStep. O(nodes * 2^values * values).
std::optional<Script> CheapestScript(const Graph& graph,
                                     const Rehearsal& rehearsal, Bytes peak);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_RECOMPUTE_EXACT_H_
