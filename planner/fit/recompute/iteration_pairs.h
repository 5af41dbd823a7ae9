#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_

// Finds pairs of a loop and its backward loop, the scan outputs of the loop that the backward loop
// could recompute, and the number of iterations to recompute at a time.
//
//   h, gates, hs = loop 16 times h0, xs, w        gates: made; hs: carried in
//   ...
//   dw = loop 16 times gates, hs, w
//
// The iterations of a loop are divided into n segments of k iterations. The carry into each segment
// is saved, n times. The backward loop recomputes one segment at a time, and k copies of its values
// are live. This requires
//
//   n * carried + k * made, with n * k = iterations
//
// bytes. The sum is smallest if both terms are equal, and grows with the square root of the number
// of iterations (Chen et al. 2016, "Training deep nets with sublinear memory cost"). If a segment
// has several iterations, the carry of the backward loop is live twice.
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
  /// The number of iterations to recompute at a time. Loops that cannot be divided into segments of
  /// this length recompute one iteration at a time. If absent, each loop uses the smallest number
  /// that requires the fewest bytes.
  std::optional<int64_t> segment = 1;
  /// Names of values that are always kept.
  std::span<const std::string> kept = {};
};

/// A loop, its backward loop, and the values of the loop that the backward loop recomputes.
struct IterationPair {
  NodeId forward = kNoNode;
  NodeId backward = kNoNode;
  /// The number of iterations recomputed at a time.
  int64_t segment = 1;
  /// Indices of the scan outputs of `forward` that only `backward` reads. `made` are values that
  /// iterations compute. `carried_in` are copies of the carry into each iteration. They are
  /// recomputed only in segments of several iterations. Otherwise, `carried_in` is empty.
  std::vector<size_t> made = {};
  std::vector<size_t> carried_in = {};
  /// For each value of the body of `forward`, whether the recomputation requires it.
  std::vector<bool> needed = {};
};

/// Returns the pairs in `graph`, in the order of their forward loops. The backward loop of a pair
/// runs in a later phase, and is the only reader of some scan outputs of the forward loop. Loops
/// are omitted if they have collectives, operands that are updated between the two loops, or a
/// result that is always kept. If several loops have the same backward loop, only the first one is
/// paired with it. Linear, except for finding divisors.
std::vector<IterationPair> FindIterationPairs(const Graph& graph,
                                              const IterationOptions& options);

/// Returns output `r` of `body`.
ValueId OutputOf(const Graph& body, size_t r);

/// Returns the index of the loop's scan output that collects `leaf` over all iterations, if any.
std::optional<size_t> StackOf(const LoopParts& loop, ValueId leaf);

/// Returns whether a result of `node` is marked in `needed`, which has an entry for each value.
bool IsNeeded(const Node& node, const std::vector<bool>& needed);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_
