#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATIONS_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATIONS_H_

// Recomputes the iterations of loops in their backward loops.
//
// If the gradient of a loop reads values of the loop's body, the loop returns these values of all
// iterations as scan outputs, which are live until the backward pass. If the backward loop
// recomputes each iteration before it computes the gradient, the scan outputs are not necessary,
// and memory for the values of one iteration is sufficient. Only the carry into each iteration is
// saved. It is usually small.
//
//   h, ys, gates = loop 16 times h0, xs, w      h, ys, hs = loop 16 times h0, xs, w
//   ...                                         ...
//   dw = loop 16 times dys, ys, gates, w        dw = loop 16 times dys, xs, hs, w
//     { dgates = ... gates, dys }                 { gates = ... hs, xs, w
//                                                   dgates = ... gates, dys }
//
// Every iteration then runs twice with equal operands, so no bit of the results changes. If the
// carry is large compared with the values of an iteration, or if there are many iterations,
// segments of several iterations are recomputed at a time. Only the carry into each segment is then
// saved (IterationSegments). planner/fit/recompute/iteration_pairs.h chooses the length of the
// segments.
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

/// A loop whose iterations are recomputed in another loop.
struct RecomputedLoop {
  /// A description of the recomputations. `name` is the first result of the loop, and `freed` is
  /// the number of bytes of the scan outputs that are recomputed.
  RecomputedNode told = {};
  int64_t segment = 1;  // The number of iterations recomputed at a time.
  /// The number of recomputations in all iterations, without views.
  int nodes_again = 0;
  double part = 0;  // The recomputed share of the loop's operations.
  /// The name of the first result of the backward loop.
  std::string backward = {};
  /// The name of the first result of the loop in the new graph.
  std::string forward_now = {};
  /// The name of the first result of the backward loop in the new graph.
  std::string backward_now = {};
};

struct RecomputedIterations {
  Graph graph;  // Unmodified if `loops` is empty.
  std::vector<RecomputedLoop> loops = {};
  /// For each node of the original graph, its index in the new graph, or the index of the first
  /// view inserted before it. Empty if `loops` is empty.
  std::vector<NodeId> begins = {};
};

/// Returns `graph`, in which the backward loops that FindIterationPairs returns recompute the
/// iterations of their forward loops. Values that remain keep their names. Nodes keep their order.
/// They also keep their indices if every loop recomputes one iteration at a time. Propagates errors
/// of GraphBuilder, which indicate a bug. Linear, except for finding divisors.
Result<RecomputedIterations> RecomputeIterations(
    const Graph& graph, const IterationOptions& options);

// IterationSegments divides a loop and its backward loop into segments of several iterations.
//
// Both loops become loops over segments. Their bodies contain the original loops, over the
// iterations of one segment. Scan inputs become views with a leading dimension of segments. Sums
// are carried from segment to segment, so their terms are added in the original order.
//
//   h, starts = loop 4 times h0, xs, w               over segments of 4 of the 16 iterations
//     { starts = copy h
//       h = loop 4 times h, xs, w }
//   ...
//   dw = loop 4 times starts, xs, w
//     { gates, hs = loop 4 times starts, xs, w       recomputes the segment
//       dw = loop 4 times dw, gates, hs, w }         computes its gradient
//
//   IterationSegments segments(graph, pair, &copy, &g);
//   STOWAGE_RETURN_IF_ERROR(segments.CopyForward());
//   ... the nodes between the loops ...
//   STOWAGE_RETURN_IF_ERROR(segments.CopyBackward());

class IterationSegments {
 public:
  /// Prepares to append the new loops of `pair` to `g`. `copy` must copy the other nodes of `graph`
  /// to `g`. All arguments must outlive the object. Requires `pair.segment > 1`.
  IterationSegments(const Graph& graph, const IterationPair& pair,
                    GraphCopy* copy, GraphBuilder* g);

  /// Appends the loop that replaces the forward loop. Propagates errors of GraphBuilder.
  Status CopyForward();
  /// Appends the loop that replaces the backward loop. CopyForward must have been called before.
  /// Propagates errors of GraphBuilder.
  Status CopyBackward();

 private:
  // The operands of a loop over segments, and the leaves of its body that receive them.
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
  std::map<ValueId, Value> cuts_;  // by value: scan inputs as views of segments
  // By leaf of the forward body: the carries into all segments.
  std::map<ValueId, Value> starts_;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATIONS_H_
