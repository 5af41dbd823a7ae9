#ifndef STOWAGE_PLANNER_PACKING_CACHING_ALLOCATOR_H_
#define STOWAGE_PLANNER_PACKING_CACHING_ALLOCATOR_H_

// Simulates a caching device allocator on the schedule of a packing problem, to report the
// memory that this schedule takes without a plan. The simulation follows the documented
// rules of PyTorch's CUDA allocator with the default settings, which most training runs
// use:
//
//   - A request is rounded up to a multiple of 512 bytes.
//   - Requests of up to 1 MiB (rounded) are served from small segments of 2 MiB. Larger requests
//     are served from large segments. A large segment has 20 MiB if the request is below 10 MiB;
//     otherwise it has the size of the request, rounded up to 2 MiB.
//   - The allocator uses the smallest free block that holds the request and, among blocks of
//     equal size, the one at the lowest address. The remainder of the block is split off in a
//     small segment if it has at least 512 bytes, and in a large segment if it has more than 1 MiB.
//   - A freed block merges with its free neighbors in the segment.
//   - Segments are never returned to the device.
//
// The result is the number of bytes in all segments, which other allocations on the device cannot
// use. The simulation has no streams, no limits and no garbage collection.

#include "planner/packing/problem.h"

namespace stowage::packing {

/// Returns the number of bytes in all segments after the schedule of `problem`. The number never
/// decreases, so it is also the peak. Requires that `problem` passes CheckProblem.
///
/// At each time, frees precede allocations. Among buffers that are allocated at the same time,
/// buffers with a fixed offset and buffers that are live throughout the schedule come first, as
/// weights do. Otherwise buffers are allocated in the order of the problem. The values of offsets
/// and alignments are ignored. If the sum of the sizes plus 21 MiB for each buffer overflows 64
/// bits, the result is the largest representable number. O(n log n).
Bytes SimulateCachingAllocator(const Problem& problem);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_CACHING_ALLOCATOR_H_
