#ifndef STOWAGE_PLANNER_PACKING_PACK_PART_H_
#define STOWAGE_PLANNER_PACKING_PACK_PART_H_

// Packs a part as a whole, by the orders that planner/packing/restarts.h tells: where
// many items hang together they are stacked, mended in windows and swept first; then
// the hold is filled in each order, and each order is mended.

#include <cstdint>

#include "base/bytes.h"
#include "planner/packing/part.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

/// How much looking into the hold (Hold::work) may be spent on all that follows
/// the first order, unless more is asked for.
inline constexpr int64_t kGreedyWork = 60'000'000;

/// Packs all items of a part, those of a given offset there. Stops at `target` or
/// less, and with the first packing found after the deadline. Deterministic unless
/// the deadline passes. O(n log n), and `work`.
PartPacking PackPart(const Part& part, Bytes target, int64_t work,
                     Deadline deadline);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_PACK_PART_H_
