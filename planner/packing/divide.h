#ifndef STOWAGE_PLANNER_PACKING_DIVIDE_H_
#define STOWAGE_PLANNER_PACKING_DIVIDE_H_

// Takes parts apart before they are packed. Where only what lasts reaches from one
// column to the next, the stretches on the two sides are packed on their own, and
// equal stretches, as the steps of an unrolled loop are, once.

#include <cstdint>

#include "base/bytes.h"
#include "planner/packing/deadline.h"
#include "planner/packing/part.h"

namespace stowage::packing {

/// Packs all items of a part as PackPart does, its stretches apart, to which `work`
/// is dealt by their share of the items. O(n log n), and `work`.
PartPacking PackDivided(const Part& part, Bytes target, int64_t work,
                        Deadline deadline);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_DIVIDE_H_
