#ifndef STOWAGE_PLANNER_PACKING_BEST_H_
#define STOWAGE_PLANNER_PACKING_BEST_H_

// Provides the packer that finds the best packings, for Packer::kBest. It runs the greedy packer
// first (planner/packing/greedy.h). If the greedy packing is above the goal, a complete search with
// restarts (planner/packing/canonical_search.h) follows, with limited effort. The goal is the
// capacity or, without a capacity, the lower bound. There is no search if the capacity is below the
// lower bound.
//
// The search tries the goal first, because a tight capacity prunes more. If the search neither
// reaches the goal nor proves that no packing does, bisection approaches the goal from above.
// Problems of more than 8000 buffers, or with more than 8 million pairs of buffers that conflict,
// are packed only by the greedy packer, with more effort.
//
//   BestPacking best = PackBest(problem, ComputeLowerBound(problem).bytes, {});
//   best.proven;  // No packing is lower than this.
//
// If no packing fits a capacity although the live bytes fit at every time, FindMisfit returns a
// small set of buffers that cannot fit together. FindMisfit is a deletion filter: it removes
// buffers if a complete search proves that the remaining buffers still do not fit.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {

/// A set of buffers that do not fit a capacity together.
struct Misfit {
  std::vector<size_t> buffers;  // Indices in ascending order.
  bool irreducible = false;     // True if every proper subset fits.
};

/// Returns a set of buffers of `problem` that do not fit `capacity` together. Requires that
/// a complete search has proven that `problem` does not fit `capacity`. The set may be reducible if
/// all `effort` steps are used, if one search uses more than 1/32 of them, or if the deadline
/// passes.
Misfit FindMisfit(const Problem& problem, Bytes capacity, int64_t effort,
                  Deadline deadline = {});

struct BestOptions {
  /// The maximum number of search steps, which take some nanoseconds each. If it is proven that no
  /// packing fits the capacity, FindMisfit uses up to the same number of steps in addition.
  int64_t effort = 1'500'000'000;
  Deadline deadline = {};
};

struct BestPacking {
  Solution solution;
  /// "search", or the order of the greedy packer (GreedyPacking::order).
  std::string method;
  Bytes proven = 0;  // No packing is lower than this. At least `bound`.
  /// Not empty if the search has proven that no packing fits the capacity.
  Misfit misfit;
};

/// Packs a problem that passes CheckProblem. `bound` must be its lower bound (ComputeLowerBound in
/// planner/packing/validate.h). The packing is never higher than the packing of PackGreedily for
/// the target `bound` with the same deadline. Deterministic unless the deadline passes.
BestPacking PackBest(const Problem& problem, Bytes bound,
                     const BestOptions& options);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_BEST_H_
