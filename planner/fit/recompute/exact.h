#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_EXACT_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_EXACT_H_

// The least extra cost of recomputation for a small step, over all schedules.
//
// It is a shortest path over states: the number of nodes that have run, and the set of live
// values. Between two nodes any earlier node, optionally of gradients too, may be recomputed if
// its operands are live and no param that it reads has been updated. If the next node does not
// fit, as few values as necessary are dropped. Checkmate (Jain et al., MLSys 2020) states the
// same as an integer program; this is an A* search, guided by the recomputations that would be
// needed with unlimited memory. The number of states depends on the step and the peak, so the
// search has a limit.
//
//   int64_t effort = 1'000'000;
//   std::optional<Script> script =
//       CheapestScript(step, simulation, 1 << 20, true, &effort);
//   if (!script && effort > 0) ...  // there is none

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {

/// Whether the step is small enough: at most 64 values that own bytes and are neither leaves nor
/// outputs, and no collectives.
bool IsSmallStep(const Graph& graph, const Simulation& simulation);

/// The script with the least extra cost whose live bytes stay within `peak`; nothing if there is
/// none, or if `effort`, the number of states and transitions, is spent. The effort used is
/// subtracted; a positive rest means that the answer is exact. Without `gradients` only forward
/// nodes are recomputed. Bytes are those of Simulation. Precondition: IsSmallStep.
std::optional<Script> CheapestScript(const Graph& graph,
                                     const Simulation& simulation, Bytes peak,
                                     bool gradients, int64_t* effort);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_EXACT_H_
