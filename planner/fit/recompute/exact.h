#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_EXACT_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_EXACT_H_

// The least extra cost for a small step, over all scripts.
//
// A shortest path: from (no node run, nothing there) to (all nodes run), over
// pairs of how many nodes have run and which values are there. Between two nodes
// any earlier node may run again, if what it reads is there and no param that it
// reads has been updated, gradients' nodes too if so wished; and where the next
// run does not fit, values are let go, no more than it takes. Checkmate (Jain et
// al., MLSys 2020) states the same as an integer program; here A* goes through
// the sets, led by what would have to run again if bytes were free. How many sets
// that is depends on the step and on the peak, so the search is given an effort.
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

/// Whether the step is small enough to be looked at: at most 64 values that own
/// bytes and are neither leaves nor outputs, and no exchanges between ranks.
bool IsSmallStep(const Graph& graph, const Simulation& simulation);

/// The script with the least extra cost whose live bytes stay within `peak`;
/// nothing when there is none, or when `effort`, the most sets to go through and the ways
/// to them that are tried, is spent. Takes what it uses off `effort`; what is left is positive when the
/// answer is sure. Without `gradients` only forward nodes run again. Bytes are as
/// Simulation counts them. Precondition: IsSmallStep.
std::optional<Script> CheapestScript(const Graph& graph,
                                     const Simulation& simulation, Bytes peak,
                                     bool gradients, int64_t* effort);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_EXACT_H_
