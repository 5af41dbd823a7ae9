#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_

// Loops, and the loops that go back over them: which of what one stacks the other could
// make again, and of how many iterations at a time.
//
//   h, gates, hs = loop 16 times h0, xs, w        gates: made; hs: carried in
//   ...
//   dw = loop 16 times gates, hs, w
//
// The iterations of a loop are taken in n segments of k. What is carried into a segment is
// stacked, n times; the loop that goes back makes one segment again at a time, and what
// that stacks is there k times:
//
//   n * carried + k * made, of n * k = iterations
//
// which is least where both are alike, so that it grows as the root of the iterations (Chen
// et al. 2016, "Training deep nets with sublinear memory cost"). Beside a segment of
// several iterations lies what the loop that goes back hands on from one to the next, a second
// time.
//
//   for (const IterationPair& pair : FindIterationPairs(graph, {})) ... pair.segment

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/bodies.h"
#include "ir/graph.h"

namespace stowage::fit {

struct IterationOptions {
  /// How many iterations are made again at a time: so many, of loops whose iterations are a
  /// multiple and that can be taken so, and one of others. Absent: as many as take the
  /// least bytes, the fewest of these.
  std::optional<int64_t> segment = 1;
  /// Values that are always kept.
  std::span<const std::string> kept = {};
};

/// A loop, the one that goes back, and what the second makes again of the first.
struct IterationPair {
  NodeId forward = kNoNode;
  NodeId backward = kNoNode;
  /// How many iterations are made again at a time.
  int64_t segment = 1;
  /// Results of `forward` that it stacks for `backward` alone: what iterations make, and what
  /// is carried into them. The latter are made again in segments of several iterations only.
  std::vector<size_t> made = {};
  std::vector<size_t> carried_in = {};
  /// By value of the body of `forward`: whether it must be there when iterations are made
  /// again.
  std::vector<bool> needed = {};
};

/// The pairs in `graph`, in the order of their forward loops: of each, a loop of a later
/// phase reads, slice by slice, what nothing else does. There are none of loops whose
/// iterations hold collectives, or read from outside what is overwritten in between, or of
/// which a result is always kept; of several loops with the same one that goes back there
/// is the first. Linear, but for finding divisors.
std::vector<IterationPair> FindIterationPairs(const Graph& graph,
                                              const IterationOptions& options);

/// What `body` hands back as its output `r`.
ValueId OutputOf(const Graph& body, size_t r);

/// The result of a loop that is `leaf` of every iteration, if there is one.
std::optional<size_t> StackOf(const LoopParts& loop, ValueId leaf);

/// Whether a result of `node` is needed.
bool IsNeeded(const Node& node, const std::vector<bool>& needed);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_
