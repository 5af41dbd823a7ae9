#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_TRIPS_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_TRIPS_H_

// Trips of loops, made again in the loops that go back.
//
// A loop whose gradient reads what its body makes hands that back, stacked: every trip
// has its part of the arena until backward has been there. Where the backward loop makes
// the trip again first, the stack is not there at all, and the room of one trip is
// enough. What a trip carries on from the one before is stacked instead, which mostly is
// a small state.
//
//   h, ys, gates = loop 16 times h0, xs, w      h, ys, hs = loop 16 times h0, xs, w
//   ...                                         ...
//   dw = loop 16 times dys, ys, gates, w        dw = loop 16 times dys, xs, hs, w
//     { dgates = ... gates, dys }                 { gates = ... hs, xs, w
//                                                   dgates = ... gates, dys }
//
// Every trip runs twice then, in the same way, so that no bit changes (the scheme of
// Chen et al. 2016, "Training deep nets with sublinear memory cost", with a trip for a
// segment).
//
//   STOWAGE_ASSIGN_OR_RETURN(const RemadeTrips made, RemakeTrips(step));
//   if (!made.loops.empty()) ... made.graph

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/fitted_step.h"

namespace stowage::fit {

/// A loop whose trips run again in another.
struct RemadeLoop {
  /// Of the loop: its first result, the bytes that it stacked for backward alone, and
  /// what runs again.
  Remade told = {};
  int nodes_again = 0;        // of all trips; views not counted
  double part = 0;            // of the loop's operations that run again
  std::string backward = {};  // the first result of the loop that goes back
};

struct RemadeTrips {
  Graph graph;  // as it was, where `loops` is empty
  std::vector<RemadeLoop> loops = {};
};

/// `graph` with the trips of its loops made again, wherever a loop of a later phase reads,
/// slice by slice, what nothing else does. Loops stay where the trip holds collectives or
/// what it reads from outside is overwritten in between, and where one of its results is
/// named in `kept`; of several loops that read it in this way the first is served. Nodes
/// keep their places; values that stay keep their names. Linear.
Result<RemadeTrips> RemakeTrips(const Graph& graph,
                                std::span<const std::string> kept = {});

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_TRIPS_H_
