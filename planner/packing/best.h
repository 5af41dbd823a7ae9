#ifndef STOWAGE_PLANNER_PACKING_BEST_H_
#define STOWAGE_PLANNER_PACKING_BEST_H_

// Provides the best packer. It runs the greedy packer first. If the greedy packing misses
// the goal, a complete search with restarts (planner/packing/canonical_search.h) follows,
// with limited effort. The goal is the capacity or, without a capacity, the lower bound.
//
// The search tries the goal first, because a tight capacity prunes more. If the goal is
// neither reached nor refuted, bisection approaches it from above. Problems with very many
// conflicts are packed only by the greedy packer, with more effort.
//
//   BestPacking best = PackBest(problem, ComputeLowerBound(problem).bytes, {});
//   best.proven;  // no packing is lower than this
//
// If no packing fits a capacity although the live bytes fit at every time, FindMisfit
// returns a small set of buffers that cannot fit together. It is a deletion filter: it
// removes buffers as long as a complete search still proves that the remaining ones do not
// fit.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {

struct Misfit {
  std::vector<size_t> buffers;  // In ascending order.
  bool irreducible = false;     // True if every proper subset fits.
};

/// Returns a set of buffers of `problem` that do not fit `capacity` together. Requires that
/// a complete search has proven that `problem` does not fit `capacity`. If `effort` steps
/// are used up or the deadline passes, the set may be reducible.
Misfit FindMisfit(const Problem& problem, Bytes capacity, int64_t effort,
                  Deadline deadline = {});

struct BestOptions {
  /// The maximum number of search steps, each of some nanoseconds.
  int64_t effort = 1'500'000'000;
  Deadline deadline = {};
};

struct BestPacking {
  Solution solution;
  std::string method;  // "search", or the order of the greedy packer.
  Bytes proven = 0;    // No packing is lower. At least `bound`.
  /// Set if `proven` exceeds the capacity, but the bound does not.
  Misfit misfit;
};

/// Packs a problem that passes CheckProblem and whose lower bound is `bound`. The packing
/// is never higher than the packing of PackGreedily with the same deadline. Deterministic
/// unless the deadline passes.
BestPacking PackBest(const Problem& problem, Bytes bound,
                     const BestOptions& options);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_BEST_H_
