#ifndef STOWAGE_PLANNER_PACKING_GREEDY_H_
#define STOWAGE_PLANNER_PACKING_GREEDY_H_

// Provides the greedy packer. It visits the buffers in some order and places each in the
// lowest gap that it fits in. Results depend on the order, so several orders are tried:
//
//   pressure  buffers that are live where the most bytes are live first, then by size
//   lifetime  longest first, then largest
//   peak      by distance in time from the peak, then by size
//   size      largest first, then longest
//   area      largest size x lifetime first
//   birth     in the order of the schedule
//   death     in the reverse order of the schedule
//
// Fixed buffers are placed first. Buffers that are live at every time follow. If no order
// reaches the target, each order is improved: buffers that ended above the target move to
// the front, and the packing is repeated (squeaky wheel optimization).
//
// Large problems are divided first (planner/packing/part.h). A connected problem of
// thousands of buffers is first stacked, longest-lived first (Skyline), and the columns
// around the buffers that end above the target are repacked. Time is then swept forward and
// backward with a best-fit heap (BestFit). Both methods work for lifetimes of any shape.
//
// Effort is counted in steps, not in time, so results are the same on every machine.
// Stacking and sweeping always finish. The first order also finishes if few buffers are
// connected. The other orders share a limit.
//
//   const Bytes bound = ComputeLowerBound(problem).bytes;
//   PackGreedily(problem, bound).solution.height;

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "planner/packing/part.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

/// The default limit for the steps (Hold::work) of all orders after the first.
inline constexpr int64_t kGreedyWork = 60'000'000;

/// Packs all items of a part, without dividing it. Items with an offset keep it. Stops at a
/// height of at most `target`, or at the first packing that is found after the deadline.
/// Deterministic unless the deadline passes. O(n log n) plus `work`.
PartPacking PackPart(const Part& part, Bytes target, int64_t work,
                     Deadline deadline);

struct GreedyPacking {
  Solution solution;
  /// The best order: "pressure", "size, mended", "stack", ...
  std::string order;
};

/// Packs a problem that passes CheckProblem. Stops at a height of at most `target`, usually
/// the lower bound, or at the first packing that is found after the deadline. The packing
/// is never higher than the packing of PackLinearly. Deterministic unless the deadline
/// passes. Ties are broken by index. O(n log n) plus `work`, which does not grow with n.
GreedyPacking PackGreedily(const Problem& problem, Bytes target,
                           int64_t work = kGreedyWork, Deadline deadline = {});

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_GREEDY_H_
