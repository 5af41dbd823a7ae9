#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATIONS_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATIONS_H_

// Recomputes iterations of loops in their backward loops.
//
// A loop whose gradient reads values of its body returns them as scan outputs, which are live
// until backward. If the backward loop recomputes each iteration first, the scan outputs are not
// needed, and the memory of one iteration is enough. The carry of each iteration is saved
// instead, which is mostly small.
//
//   h, ys, gates = loop 16 times h0, xs, w      h, ys, hs = loop 16 times h0, xs, w
//   ...                                         ...
//   dw = loop 16 times dys, ys, gates, w        dw = loop 16 times dys, xs, hs, w
//     { dgates = ... gates, dys }                 { gates = ... hs, xs, w
//                                                   dgates = ... gates, dys }
//
// Every iteration then runs twice in the same way, so no bit changes. If the carry is large
// compared with the values of an iteration, or there are many iterations, segments of several are
// recomputed at a time, and only the carry into each segment is saved (IterationSegments;
// planner/fit/recompute/iteration_pairs.h says how many).
//
//   STOWAGE_ASSIGN_OR_RETURN(const RecomputedIterations made, RecomputeIterations(step, {}));
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
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/recompute/iteration_pairs.h"

namespace stowage::fit {

/// A loop whose iterations are recomputed in another.
struct RecomputedLoop {
  /// The loop: its first result, the bytes of scan outputs that only backward read, and the
  /// recomputations.
  RecomputedNode told = {};
  int64_t segment = 1;        // iterations recomputed at a time
  int nodes_again = 0;        // of all iterations; views not counted
  double part = 0;            // the recomputed share of the loop's operations
  std::string backward = {};  // the first result of the backward loop
  /// The first results of both in the new graph.
  std::string forward_now = {};
  std::string backward_now = {};
};

struct RecomputedIterations {
  Graph graph;  // unmodified if `loops` is empty
  std::vector<RecomputedLoop> loops = {};
  /// By node of the original graph: its new place, or that of the first view put before it. Empty
  /// if `loops` is.
  std::vector<NodeId> begins = {};
};

/// `graph` with the iterations of its loops made again, of all FindIterationPairs. Values that stay
/// keep their names. Nodes keep their order, and their places where each iteration is made
/// again by itself. Linear, but for finding divisors.
Result<RecomputedIterations> RecomputeIterations(
    const Graph& graph, const IterationOptions& options);

// A loop and its backward loop in segments of several iterations.
//
// Both become loops over segments, whose bodies contain the original loops over the iterations of
// one segment. Scan inputs become views of segments of slices; sums continue from segment to
// segment, so that they add in the same order.
//
//   h, starts = loop 4 times h0, xs, w               of the 16 iterations of xs, 4 and 4
//     { starts = copy h
//       h = loop 4 times h, xs, w }
//   ...
//   dw = loop 4 times starts, xs, w
//     { gates, hs = loop 4 times starts, xs, w       the segment, once more
//       dw = loop 4 times dw, gates, hs, w }         its gradient
//
//   IterationSegments segments(graph, pair, &copy, &g);
//   STOWAGE_RETURN_IF_ERROR(segments.CopyForward());
//   ... what is between ...
//   STOWAGE_RETURN_IF_ERROR(segments.CopyBackward());

class IterationSegments {
 public:
  /// Appends the new loops of `pair` to `g`; `copy` copies the rest of `graph`. All must outlive
  /// this. Precondition: `pair.segment` is above 1.
  IterationSegments(const Graph& graph, const IterationPair& pair,
                    GraphCopy* copy, GraphBuilder* g);

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
  const IterationPair& pair_;
  GraphCopy& copy_;
  GraphBuilder& g_;
  const LoopParts forward_;
  const LoopParts backward_;
  const int64_t segments_;
  std::map<ValueId, Value> cuts_;  // scan inputs as segments, by value
  // The carries into all segments, by leaf of the forward body.
  std::map<ValueId, Value> starts_;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATIONS_H_
