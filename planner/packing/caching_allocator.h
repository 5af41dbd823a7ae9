#ifndef STOWAGE_PLANNER_PACKING_CACHING_ALLOCATOR_H_
#define STOWAGE_PLANNER_PACKING_CACHING_ALLOCATOR_H_

// What the same schedule would have cost without a plan: a simulation of the
// caching device allocator that most training runs on, by the rules PyTorch's
// CUDA allocator is documented to follow with its default settings:
//
//   - a request is rounded up to a multiple of 512 bytes;
//   - requests up to 1 MiB (rounded) are served from small segments of 2 MiB,
//     larger ones from large segments: of 20 MiB below 10 MiB, otherwise of the
//     request rounded up to 2 MiB;
//   - the smallest free block that holds the request is taken, the lowest
//     address among equals; what remains of it is split off when it is at least
//     512 bytes in a small segment, more than 1 MiB in a large one;
//   - a freed block merges with its free neighbours in the segment;
//   - segments are never given back.
//
// What counts is what the device has lost: the bytes in segments. The
// simulation has no streams, no limits and no garbage collection.

#include "planner/packing/problem.h"

namespace stowage::packing {

/// The bytes in segments after playing the schedule of a problem that passes
/// CheckProblem, which is also their peak. At each time come the frees, then
/// the allocations; of those born together, fixed buffers and those that live
/// from first to last come first, as weights do, and otherwise the order is
/// that of the problem. Placements and alignments are ignored. When the sizes,
/// with 21 MiB more for each, do not sum to 64 bits: the largest number.
/// O(n log n).
Bytes SimulateCachingAllocator(const Problem& problem);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_CACHING_ALLOCATOR_H_
