#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_EXACT_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_EXACT_H_

// Finds the recomputation with the lowest extra cost for a small step, over all schedules.
//
// The search finds a shortest path over states. A state is the number of nodes that have run and
// the set of live values. Between two nodes any earlier node may be recomputed if its operands are
// live and no param that it reads has been updated. Nodes of the backward pass may be recomputed if
// the caller allows it. If the next node does not fit, as few values as necessary are dropped.
// Checkmate (Jain et al., MLSys 2020) states the same problem as an integer program. This header
// provides an A* search instead. Its heuristic is the cost of the recomputations that would be
// necessary from a state on with unlimited memory. The number of states depends on the step and the
// peak, so the effort must be limited.
//
//   int64_t effort = 1'000'000;
//   std::optional<Script> script =
//       CheapestScript(step, simulation, 1 << 20, true, &effort);
//   if (!script && effort > 0) ...  // No script stays within this peak.

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {

/// Returns whether `graph` is small enough for CheapestScript. It must not have collectives, and
/// must not have more than 64 values that own bytes and are not leaves. `simulation` must be a
/// simulation of `graph`.
bool IsSmallStep(const Graph& graph, const Simulation& simulation);

/// Returns the script with the lowest extra cost whose live bytes, as computed by Simulation, stay
/// within `peak`. Returns nullopt if there is no such script, or if the effort is spent. `effort`
/// is a number of states and transitions. The effort used is subtracted from it. If `effort` is
/// still positive, the answer is exact. Only forward nodes are recomputed unless `gradients` is
/// set. Requires that IsSmallStep returns true.
std::optional<Script> CheapestScript(const Graph& graph,
                                     const Simulation& simulation, Bytes peak,
                                     bool gradients, int64_t* effort);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_EXACT_H_
