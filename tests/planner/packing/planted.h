#ifndef STOWAGE_TESTS_PLANNER_PACKING_PLANTED_H_
#define STOWAGE_TESTS_PLANNER_PACKING_PLANTED_H_

// Hard packing problems whose optimum is known: a rectangle of time x address is
// cut into smaller ones, straight through or around a core like a pinwheel, and
// only the times and sizes of the pieces are kept. There is no slack anywhere:
// any packing as low as the rectangle is perfect.

#include <cstdint>

#include "planner/packing/problem.h"

namespace stowage::packing {

struct Planted {
  int buffers = 100;  // at least this many, up to four more
  Time width = 100;
  Bytes height = 1 << 20;  // the optimum, and the bytes alive at every time
};

/// The same problem for the same seed. Width x height must allow for the
/// number of pieces.
Problem PlantedProblem(const Planted& planted, uint64_t seed);

}  // namespace stowage::packing

#endif  // STOWAGE_TESTS_PLANNER_PACKING_PLANTED_H_
