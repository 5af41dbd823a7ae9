#ifndef STOWAGE_PLANNER_PACKING_BEST_H_
#define STOWAGE_PLANNER_PACKING_BEST_H_

// The best packer: greedy first; if that misses the goal, a complete search with restarts
// (planner/packing/canonical_search.h) of limited effort. The goal is the capacity, or else
// the lower bound. The goal is tried first: a tight capacity prunes more. If it is neither
// reached nor refuted, bisection closes in on it from above. Problems with very many
// conflicts are left to the greedy packer, with more effort.
//
//   BestPacking best = PackBest(problem, ComputeLowerBound(problem).bytes, {});
//   best.proven;  // no packing is lower than this
//
// If no packing fits a capacity although the live bytes at every time would, FindMisfit names
// a small set of buffers that cannot fit together. It is a deletion filter: buffers are left
// out as long as a complete search still refutes the rest.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {

struct Misfit {
  std::vector<size_t> buffers;  // ascending
  bool irreducible = false;     // any proper subset would fit
};

/// The misfit of a problem that a complete search has proven not to fit `capacity`. The set
/// may be reducible after `effort` steps or at the deadline.
Misfit FindMisfit(const Problem& problem, Bytes capacity, int64_t effort,
                  Deadline deadline = {});

struct BestOptions {
  int64_t effort = 1'500'000'000;  // steps of searching, some nanoseconds each
  Deadline deadline = {};
};

struct BestPacking {
  Solution solution;
  std::string method;  // "search", or the order of the greedy packer
  Bytes proven = 0;    // no packing is lower; at least the lower bound
  Misfit misfit;       // if `proven` is above the capacity but the bound is not
};

/// Packs a problem that passes CheckProblem and whose lower bound is `bound`.
/// Never higher than PackGreedily with the same deadline. Deterministic unless the
/// deadline passes.
BestPacking PackBest(const Problem& problem, Bytes bound,
                     const BestOptions& options);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_BEST_H_
