#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_

// Finds pairs of a loop and its backward loop. For each pair, finds the scan outputs of the loop
// that the backward loop could recompute, and the number of iterations to recompute at a time.
// planner/fit/recompute/iterations.h modifies the loops.
//
//   h, gates, hs = loop 16 times h0, xs, w        // gates: computed by the iterations
//   ...                                           // hs: the carry into each iteration
//   dw = loop 16 times gates, hs, w
//
// The iterations of a loop are divided into n segments of k iterations. The carry into each segment
// is saved for all n segments. The backward loop recomputes one segment at a time, so the values of
// k iterations are live. Let `carried` be the bytes of the carry, and `made` the bytes of the scan
// outputs per iteration. Then
//
//   n * carried + k * made, with n * k = iterations
//
// bytes are live. The sum is smallest if both terms are equal. It then grows with the square root
// of the number of iterations (Chen et al. 2016, "Training deep nets with sublinear memory cost").
// If a segment has several iterations, the carry of the backward loop is live twice.
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
  /// The number of iterations to recompute at a time. Must be at least 1. Loops that cannot be
  /// divided into segments of this length recompute one iteration at a time. If absent, each loop
  /// uses the smallest number that requires the fewest bytes.
  std::optional<int64_t> segment = 1;
  /// Names of values that are always kept. Must outlive the call.
  std::span<const std::string> kept = {};
};

/// A loop, its backward loop, and the values of the loop that the backward loop recomputes.
struct IterationPair {
  NodeId forward = kNoNode;
  NodeId backward = kNoNode;
  /// The number of iterations recomputed at a time.
  int64_t segment = 1;
  /// Result indices of the scan outputs of `forward` that only `backward` reads and that contain
  /// values computed by the iterations.
  std::vector<size_t> made = {};
  /// Result indices of the scan outputs of `forward` that only `backward` reads and that contain
  /// the carry into each iteration. They are recomputed only in segments of several iterations. If
  /// `segment` is 1, `carried_in` is empty.
  std::vector<size_t> carried_in = {};
  /// For each value of the body of `forward`, whether the recomputation requires it.
  std::vector<bool> needed = {};
};

/// Returns the pairs in `graph`, in the order of their forward loops. The backward loop of a pair
/// runs in a later phase, has as many iterations, and is the only reader of some scan outputs of
/// the forward loop. Loops are omitted if one of the two has collectives, if the recomputation
/// requires an operand that is updated between the two loops, or if a result of the forward loop is
/// always kept. If several loops have the same backward loop, only the first one is paired with it.
/// Linear, except for finding divisors.
std::vector<IterationPair> FindIterationPairs(const Graph& graph,
                                              const IterationOptions& options);

/// Returns the value of output `r` of `body`.
ValueId OutputOf(const Graph& body, size_t r);

/// Returns the result index of a scan output of `loop` that contains `leaf`, a leaf of the body, of
/// all iterations. Returns nullopt if there is none.
std::optional<size_t> StackOf(const LoopParts& loop, ValueId leaf);

/// Returns whether a result of `node` is required. `needed` must have an entry for each value
/// (IterationPair::needed).
bool IsNeeded(const Node& node, const std::vector<bool>& needed);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_
