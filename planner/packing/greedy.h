#ifndef STOWAGE_PLANNER_PACKING_GREEDY_H_
#define STOWAGE_PLANNER_PACKING_GREEDY_H_

// The greedy packer takes the buffers in some order and gives each the lowest gap that it
// fits in. Results depend on the order, so several are tried:
//
//   pressure  buffers live where most bytes are live first, then by size
//   lifetime  longest first, then largest
//   peak      by distance in time from the peak, then by size
//   size      largest first, then longest
//   area      largest size x lifetime first
//   birth     in the order of the schedule
//   death     in the order of the schedule run backwards
//
// Fixed buffers go first, then buffers that are live at every time. If no order reaches the
// target, each is improved: buffers that ended above the target move to the front and the
// packing is repeated (squeaky wheel optimization).
//
// Large problems are divided first (planner/packing/part.h). Thousands of connected buffers
// are stacked, longest-lived first (Skyline), and the columns around those that end above the
// target are repacked; then time is swept forwards and backwards with a best-fit heap
// (BestFit). Neither depends on the shape of the lifetimes.
//
// Effort is counted in steps, not in time, so results are the same on every machine.
// Stacking and sweeping always finish, and so does the first order where few buffers are
// connected; other orders share a limit.
//
//   const Bytes bound = ComputeLowerBound(problem).bytes;
//   PackGreedily(problem, bound).solution.height;

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "planner/packing/part.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

/// The steps (Hold::work) that all orders after the first may take, by default.
inline constexpr int64_t kGreedyWork = 60'000'000;

/// Packs all items of a part as a whole; items with an offset stay there. Stops at a height
/// of at most `target`, and with the first packing found after the deadline. Deterministic
/// unless the deadline passes. O(n log n), and `work`.
PartPacking PackPart(const Part& part, Bytes target, int64_t work,
                     Deadline deadline);

struct GreedyPacking {
  Solution solution;
  std::string order;  // the best: "pressure", "size, mended", "stack", ...
};

/// Packs a problem that passes CheckProblem. Stops at a height of at most `target`, usually
/// the lower bound, and with the first packing found after the deadline. Deterministic unless
/// the deadline passes; ties are broken by index. Never higher than PackLinearly.
/// O(n log n), and `work`, which does not grow with n.
GreedyPacking PackGreedily(const Problem& problem, Bytes target,
                           int64_t work = kGreedyWork, Deadline deadline = {});

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_GREEDY_H_
