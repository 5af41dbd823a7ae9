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

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {

// Who is to blame when no packing fits a capacity although the bytes alive at
// every time would: a small set of buffers that cannot fit together. It is
// found with a deletion filter: leave out some, and when a complete search
// still finds nothing for the rest, they had no part in it.
//
//   const Misfit misfit = FindMisfit(problem, capacity, effort);
//   BufferName(problem, misfit.buffers[0]);  // one of those that clash

struct Misfit {
  std::vector<size_t> buffers;  // ascending; they cannot fit together
  bool irreducible = false;     // without any one of them, the rest would fit
};

/// The misfit of a problem of which a complete search has shown that no packing
/// is `capacity` bytes high or less. Stops short of an irreducible set when
/// `effort` steps of searching do not do, and at the deadline.
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
  Misfit misfit;       // when `proven` is above the capacity but `bound` is not
};

/// Packs a problem that passes CheckProblem and whose lower bound is `bound`.
/// Never higher than PackGreedily with the same deadline. Deterministic unless the
/// deadline passes.
BestPacking PackBest(const Problem& problem, Bytes bound,
                     const BestOptions& options);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_BEST_H_
