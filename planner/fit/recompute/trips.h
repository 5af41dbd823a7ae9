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
// Every trip runs twice then, in the same way, so that no bit changes. Where what is
// carried is large beside what a trip makes, or there are many trips, several run again
// at a time: only what is carried into each such segment is stacked then
// (planner/fit/recompute/trip_pairs.h says how many, trip_segments.h how).
//
//   STOWAGE_ASSIGN_OR_RETURN(const RemadeTrips made, RemakeTrips(step, {}));
//   if (!made.loops.empty()) ... made.graph

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/graph_copy.h"
#include "planner/fit/levers.h"
#include "planner/fit/recompute/trip_pairs.h"

namespace stowage::fit {

/// A loop whose trips run again in another.
struct RemadeLoop {
  /// Of the loop: its first result, the bytes that it stacked for backward alone, and
  /// what runs again.
  Remade told = {};
  int64_t segment = 1;        // trips that are made again at a time
  int nodes_again = 0;        // of all trips; views not counted
  double part = 0;            // of the loop's operations that run again
  std::string backward = {};  // the first result of the loop that goes back
  /// The first results of both as they are now.
  std::string forward_now = {};
  std::string backward_now = {};
};

struct RemadeTrips {
  Graph graph;  // as it was, where `loops` is empty
  std::vector<RemadeLoop> loops = {};
  /// By node of the graph as it was: its place now, or that of the first view that was
  /// put before it. Empty where `loops` is.
  std::vector<NodeId> begins = {};
};

/// `graph` with the trips of its loops made again, of all FindTripPairs. Values that stay
/// keep their names. Nodes keep their order, and their places where each trip is made
/// again by itself. Linear, but for finding divisors.
Result<RemadeTrips> RemakeTrips(const Graph& graph, const TripOptions& options);

// A loop, and the one that goes back over it, in segments of several trips.
//
// Both become loops over segments, in whose bodies they stand as they were, over the
// trips of one. What has slices is seen as segments of slices, by views; what is summed
// goes on from segment to segment, so that it is added in the same order.
//
//   h, starts = loop 4 times h0, xs, w               of the 16 trips of xs, 4 and 4
//     { starts = copy h
//       h = loop 4 times h, xs, w }
//   ...
//   dw = loop 4 times starts, xs, w
//     { gates, hs = loop 4 times starts, xs, w       the segment, once more
//       dw = loop 4 times dw, gates, hs, w }         its gradient
//
//   TripSegments segments(graph, pair, &copy, &g);
//   STOWAGE_RETURN_IF_ERROR(segments.CopyForward());
//   ... what is between ...
//   STOWAGE_RETURN_IF_ERROR(segments.CopyBackward());

class TripSegments {
 public:
  /// Appends to `g` what becomes of the loops of `pair`, in place of `copy`, which copies
  /// all else of `graph` to it. All must outlive this. Precondition: `pair.segment` is
  /// above 1.
  TripSegments(const Graph& graph, const TripPair& pair, GraphCopy* copy,
               GraphBuilder* g);

  Status CopyForward();
  Status CopyBackward();

 private:
  // Operands of a loop over segments, and the leaves of its body for them.
  struct Handed {
    std::vector<Value> operands = {};
    std::vector<Value> leaves = {};
    size_t carried = 0;
    size_t sliced = 0;
  };

  Value Declare(GraphBuilder* body, const ValueInfo& like, bool is_cut) const;
  Value Cut(ValueId id);
  Status Emit(NodeId id, const Handed& handed, const GraphBuilder& body,
              const std::vector<Value>& outputs,
              const std::vector<std::string>& names,
              std::vector<Value>* results);
  std::string FreeName(std::string name) const;
  std::string NameOf(ValueId result, bool is_stacked) const;
  void MapResult(ValueId id, Value result, bool is_stacked);

  const Graph& graph_;
  const TripPair& pair_;
  GraphCopy& copy_;
  GraphBuilder& g_;
  const LoopParts forward_;
  const LoopParts backward_;
  const int64_t segments_;
  std::map<ValueId, Value> cuts_;  // what has slices, as segments, by value
  // What is carried into each segment, stacked, by leaf of the forward body.
  std::map<ValueId, Value> starts_;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_TRIPS_H_
