#ifndef STOWAGE_PLANNER_PACKING_GREEDY_H_
#define STOWAGE_PLANNER_PACKING_GREEDY_H_

// Provides the greedy packer. It visits the buffers in some order and places each in the
// lowest gap that it fits in. Results depend on the order, so several orders are tried:
//
//   pressure  by the largest number of bytes that are live during the lifetime, then by size
//   lifetime  longest lifetime first, then by size
//   peak      nearest in time to the peak first, then by size
//   size      largest size first, then by lifetime
//   area      largest product of size and lifetime first, then by size
//   birth     earliest begin of the lifetime first, then latest end
//   death     latest end of the lifetime first, then earliest begin
//
// Fixed buffers are placed first. Buffers that are live at every time follow. If no order
// reaches the target, each order is improved: buffers that ended above the target move to
// the front of the order, and the packing is repeated (squeaky wheel optimization).
//
// Problems without fixed buffers are divided first, if possible (planner/packing/part.h). A problem
// of at least 4096 buffers that cannot be divided is first packed by two fast methods. The first
// method stacks the buffers, longest-lived first (Skyline in planner/packing/free_space.h), and
// repacks the columns around the buffers that end above the target. The second method visits
// buffers in the order of time, forward and then backward, with a best-fit heap (BestFit in
// planner/packing/free_space.h). Both methods work for lifetimes of any shape.
//
// Effort is counted in steps, not in time, so results are the same on every machine. The fast
// methods always finish. The first order has a separate limit, which only some problems of many
// buffers exceed. The other orders share a limit.
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

/// Packs all items of a part, without dividing it. Items with an offset keep it. Stops when a
/// packing has a height of at most `target`, or when there is a packing and the deadline has
/// passed. `work` limits the orders after the first, as in kGreedyWork. Deterministic unless the
/// deadline passes. Takes O(n log n) time plus time in proportion to `work`.
PartPacking PackPart(const Part& part, Bytes target, int64_t work,
                     Deadline deadline);

struct GreedyPacking {
  Solution solution;
  /// The method that found the packing: an order ("pressure"), an improved order ("size, mended"),
  /// a fast method ("stack", "birth, best fit"), or "no reuse" for PackLinearly. Empty if all sizes
  /// are 0.
  std::string order;
};

/// Packs a problem that passes CheckProblem. Stops when a packing has a height of at most `target`,
/// usually the lower bound, or when there is a packing and the deadline has passed. A packing
/// above `target` is never higher than the packing of PackLinearly. Deterministic unless the
/// deadline passes. Ties are broken by index. Takes O(n log n) time plus time in proportion to
/// `work` (see PackPart).
GreedyPacking PackGreedily(const Problem& problem, Bytes target,
                           int64_t work = kGreedyWork, Deadline deadline = {});

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_GREEDY_H_
