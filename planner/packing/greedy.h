#ifndef STOWAGE_PLANNER_PACKING_GREEDY_H_
#define STOWAGE_PLANNER_PACKING_GREEDY_H_

// The greedy packer: take the buffers in some order and give each the lowest
// gap it fits in. All depends on the order, so several good ones are tried:
//
//   pressure  those alive when the hold is fullest first, then by size
//   lifetime  longest first, then largest
//   peak      by distance in time from the fullest moment, then by size
//   size      largest first, then longest
//   area      largest size x lifetime first
//   birth     in the order of the schedule
//   death     in the order of the schedule run backwards
//
// Fixed buffers go before all others, then those alive at every time, which
// would only be in the way later. When no order reaches the target, each is
// mended like a squeaky wheel: whatever ended above moves to the front, the rest
// follows as before, and the hold is filled again.
//
// Large problems are made small first (planner/packing/divide.h). Thousands of buffers that hang
// together are stacked, longest-lived first (planner/packing/skyline.h), and where some
// end above the target, the columns around them are packed anew. Then time is swept
// forwards and backwards, each taking the tightest gap at its birth or death
// (planner/packing/best_fit.h). Neither looks at more than a buffer's neighbours, so
// no shape of lifetimes makes them slow.
//
// The effort is bounded in work, not in time, so the result is the same on
// every machine: stacking and sweeping are always finished, and so is the first
// order where few hang together; the rest share a bound. Where even the first
// order would take too much, it is left out.

#include <cstdint>
#include <string>

#include "planner/packing/deadline.h"
#include "planner/packing/pack_part.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

struct GreedyPacking {
  Solution solution;
  std::string order;  // what won: "pressure", "size, mended", "stack", ...
};

/// Packs a problem that passes CheckProblem; stops as soon as the height is
/// `target` or less (its lower bound, as a rule), or with the first packing found
/// after the deadline. Deterministic unless the deadline passes; ties go by index.
/// Never higher than PackLinearly. O(n log n), and `work` that does not grow with
/// n; never a scan over all pairs.
GreedyPacking PackGreedily(const Problem& problem, Bytes target,
                           int64_t work = kGreedyWork, Deadline deadline = {});

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_GREEDY_H_
