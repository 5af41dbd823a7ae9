#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_

// Loops and their backward loops: which scan outputs of one the other could recompute, and how
// many iterations at a time.
//
//   h, gates, hs = loop 16 times h0, xs, w        gates: made; hs: carried in
//   ...
//   dw = loop 16 times gates, hs, w
//
// The iterations of a loop are divided into n segments of k. The carry into each segment is saved,
// n times; the backward loop recomputes one segment at a time, whose values are live k times:
//
//   n * carried + k * made, with n * k = iterations
//
// This is least if both terms are equal, and grows with the root of the iterations (Chen et al.
// 2016, "Training deep nets with sublinear memory cost"). With several iterations in a segment,
// the carry of the backward loop is live twice.
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
  /// Iterations recomputed at a time, in loops whose trip count is a multiple and that can be
  /// divided; one in others. Absent: the smallest number that takes the fewest bytes.
  std::optional<int64_t> segment = 1;
  /// Names of values that are always kept.
  std::span<const std::string> kept = {};
};

/// A loop, its backward loop, and the values of the first that the second recomputes.
struct IterationPair {
  NodeId forward = kNoNode;
  NodeId backward = kNoNode;
  /// Iterations recomputed at a time.
  int64_t segment = 1;
  /// Scan outputs of `forward` that only `backward` reads: values of iterations, and their carry.
  /// The latter are recomputed in segments of several iterations only.
  std::vector<size_t> made = {};
  std::vector<size_t> carried_in = {};
  /// By value of the body of `forward`: whether the recomputation requires it.
  std::vector<bool> needed = {};
};

/// The pairs in `graph`, in the order of their forward loops: a loop of a later phase is the only
/// reader of some scan outputs of the first. Loops with collectives, with operands that are
/// overwritten in between, or with a result that is always kept are left out; of several loops
/// with the same backward loop, the first counts. Linear, but for finding divisors.
std::vector<IterationPair> FindIterationPairs(const Graph& graph,
                                              const IterationOptions& options);

/// Output `r` of `body`.
ValueId OutputOf(const Graph& body, size_t r);

/// The scan output of a loop that collects `leaf` of every iteration, if any.
std::optional<size_t> StackOf(const LoopParts& loop, ValueId leaf);

/// Whether a result of `node` is needed.
bool IsNeeded(const Node& node, const std::vector<bool>& needed);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_ITERATION_PAIRS_H_
