#ifndef STOWAGE_PLANNER_PACKING_MISFIT_H_
#define STOWAGE_PLANNER_PACKING_MISFIT_H_

// Who is to blame when no packing fits a capacity although the bytes alive at
// every time would: a small set of buffers that cannot fit together. It is
// found with a deletion filter: leave out some, and when a complete search
// still finds nothing for the rest, they had no part in it.
//
//   const Misfit misfit = FindMisfit(problem, capacity, effort);
//   BufferName(problem, misfit.buffers[0]);  // one of those that clash

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/packing/deadline.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

struct Misfit {
  std::vector<size_t> buffers;  // ascending; they cannot fit together
  bool irreducible = false;     // without any one of them, the rest would fit
};

/// The misfit of a problem of which a complete search has shown that no packing
/// is `capacity` bytes high or less. Stops short of an irreducible set when
/// `effort` steps of searching do not do, and at the deadline.
Misfit FindMisfit(const Problem& problem, Bytes capacity, int64_t effort,
                  Deadline deadline = {});

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_MISFIT_H_
