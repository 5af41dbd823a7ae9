#ifndef STOWAGE_PLANNER_PACKING_LINEAR_H_
#define STOWAGE_PLANNER_PACKING_LINEAR_H_

// The baseline packer: no reuse at all. Every buffer gets bytes of its own, one
// after the other, in the gaps between the fixed buffers and above them. What
// the other packers save is counted from here, and when a bug is suspected in a
// plan, packing linearly tells whether reuse has a part in it.

#include "planner/packing/problem.h"

namespace stowage::packing {

/// Packs a problem that passes CheckProblem, in the order of the buffers; no
/// buffer shares a byte with another that is not fixed. O(n log n).
Solution PackLinearly(const Problem& problem);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_LINEAR_H_
