#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_TRIP_SEGMENTS_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_TRIP_SEGMENTS_H_

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
#include "planner/fit/recompute/trip_pairs.h"

namespace stowage::fit {

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

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_TRIP_SEGMENTS_H_
