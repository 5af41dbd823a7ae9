#ifndef STOWAGE_PLANNER_PACKING_LOWER_BOUND_H_
#define STOWAGE_PLANNER_PACKING_LOWER_BOUND_H_

// What no packing can beat: at every time the live buffers lie side by side, so
// the height is at least the sum of their sizes; and it is at least the end of
// every buffer whose placement is fixed. A packing that reaches the bound is
// optimal, and the live set at the bound's time is the proof.
//
// The bound is computed by a sweep of its own, so that a packer's mistake
// cannot hide in it. It ignores alignment, which can only raise the height.
//
//   const LowerBound bound = ComputeLowerBound(problem);
//   LiveAt(problem, bound.time);  // who fills it, largest first

#include <cstddef>
#include <optional>
#include <vector>

#include "planner/packing/problem.h"

namespace stowage::packing {

struct LowerBound {
  Bytes bytes = 0;  // no solution has a smaller height
  Bytes live = 0;   // the largest sum of live sizes at any time
  Time time = 0;    // the earliest time at which `live` bytes live
  // The buffer whose fixed end is `bytes`, when that is above `live`.
  std::optional<size_t> fixed;
};

/// The lower bound of a problem that passes CheckProblem. O(n log n).
LowerBound ComputeLowerBound(const Problem& problem);

/// The indices of the buffers alive at `time`, largest first, ties by index.
std::vector<size_t> LiveAt(const Problem& problem, Time time);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_LOWER_BOUND_H_
