#ifndef STOWAGE_PLANNER_PACKING_BEST_H_
#define STOWAGE_PLANNER_PACKING_BEST_H_

// The best packer: greedy first; when that misses the goal, a complete search
// (planner/packing/canonical_search.h) under restarts (planner/packing/restarts.h), as far as
// the effort goes. The goal is the capacity, when there is one, and the lower
// bound otherwise. The search asks for the goal first: the tighter the
// capacity, the sooner wrong turns show. When it can neither reach the goal nor
// prove that nothing does, it closes in from above by bisection.
//
//   BestPacking best = PackBest(problem, ComputeLowerBound(problem).bytes, {});
//   best.proven;  // no packing is lower than this
//
// Problems with very many conflicts are left to the greedy packer with more
// rounds of mending.

#include <cstdint>
#include <string>

#include "planner/packing/deadline.h"
#include "planner/packing/misfit.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

struct BestOptions {
  int64_t effort = 1'500'000'000;  // steps of searching, some nanoseconds each
  Deadline deadline = {};
};

struct BestPacking {
  Solution solution;
  std::string method;  // "search", or the order of the greedy packer
  Bytes proven = 0;    // no packing is lower; at least the lower bound
  Misfit misfit;       // when `proven` is above the capacity but `bound` is not
};

/// Packs a problem that passes CheckProblem and whose lower bound is `bound`.
/// Never higher than PackGreedily with the same deadline. Deterministic unless the
/// deadline passes.
BestPacking PackBest(const Problem& problem, Bytes bound,
                     const BestOptions& options);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_BEST_H_
