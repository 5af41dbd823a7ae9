#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATIONS_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATIONS_H_

// Iterations of loops, made again in the loops that go back.
//
// A loop whose gradient reads what its body makes hands that back, stacked: every iteration
// has its part of the arena until backward has been there. Where the backward loop makes
// the iteration again first, the stack is not there at all, and the room of one iteration is
// enough. What an iteration carries on from the one before is stacked instead, which mostly is
// a small state.
//
//   h, ys, gates = loop 16 times h0, xs, w      h, ys, hs = loop 16 times h0, xs, w
//   ...                                         ...
//   dw = loop 16 times dys, ys, gates, w        dw = loop 16 times dys, xs, hs, w
//     { dgates = ... gates, dys }                 { gates = ... hs, xs, w
//                                                   dgates = ... gates, dys }
//
// Every iteration runs twice then, in the same way, so that no bit changes. Where what is
// carried is large beside what an iteration makes, or there are many iterations, several run again
// at a time: only what is carried into each such segment is stacked then
// (planner/fit/recompute/iteration_pairs.h says how many, iteration_segments.h how).
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

/// A loop whose iterations run again in another.
struct RecomputedLoop {
  /// Of the loop: its first result, the bytes that it stacked for backward alone, and
  /// what runs again.
  RecomputedNode told = {};
  int64_t segment = 1;        // iterations that are made again at a time
  int nodes_again = 0;        // of all iterations; views not counted
  double part = 0;            // of the loop's operations that run again
  std::string backward = {};  // the first result of the loop that goes back
  /// The first results of both as they are now.
  std::string forward_now = {};
  std::string backward_now = {};
};

struct RecomputedIterations {
  Graph graph;  // as it was, where `loops` is empty
  std::vector<RecomputedLoop> loops = {};
  /// By node of the graph as it was: its place now, or that of the first view that was
  /// put before it. Empty where `loops` is.
  std::vector<NodeId> begins = {};
};

/// `graph` with the iterations of its loops made again, of all FindIterationPairs. Values that stay
/// keep their names. Nodes keep their order, and their places where each iteration is made
/// again by itself. Linear, but for finding divisors.
Result<RecomputedIterations> RecomputeIterations(
    const Graph& graph, const IterationOptions& options);

// A loop, and the one that goes back over it, in segments of several iterations.
//
// Both become loops over segments, in whose bodies they stand as they were, over the
// iterations of one. What has slices is seen as segments of slices, by views; what is summed
// goes on from segment to segment, so that it is added in the same order.
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
  /// Appends to `g` what becomes of the loops of `pair`, in place of `copy`, which copies
  /// all else of `graph` to it. All must outlive this. Precondition: `pair.segment` is
  /// above 1.
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
  std::map<ValueId, Value> cuts_;  // what has slices, as segments, by value
  // What is carried into each segment, stacked, by leaf of the forward body.
  std::map<ValueId, Value> starts_;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATIONS_H_
