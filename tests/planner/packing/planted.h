#ifndef STOWAGE_TESTS_PLANNER_PACKING_PLANTED_H_
#define STOWAGE_TESTS_PLANNER_PACKING_PLANTED_H_

// Generates hard packing problems whose optimum is known. A rectangle of
// time x address is cut into smaller rectangles. A cut divides a rectangle into
// two, or into four that form a pinwheel around a fifth. Each of the smallest
// rectangles becomes a buffer of the problem, without its address. An optimal
// packing has no free bytes below its height at any time.

#include <cstdint>

#include "planner/packing/problem.h"

namespace stowage::packing {

struct Planted {
  /// The minimum number of buffers. There are at most three more.
  int buffers = 100;
  Time width = 100;        // The length of the schedule.
  Bytes height = 1 << 20;  // The optimum, and the live bytes at every time.
};

/// Returns a problem that depends only on the arguments. The rectangle of `width` x
/// `height` must be large enough for the number of buffers.
Problem PlantedProblem(const Planted& planted, uint64_t seed);

}  // namespace stowage::packing

#endif  // STOWAGE_TESTS_PLANNER_PACKING_PLANTED_H_
