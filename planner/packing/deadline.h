#ifndef STOWAGE_PLANNER_PACKING_DEADLINE_H_
#define STOWAGE_PLANNER_PACKING_DEADLINE_H_

// A point in time after which a packer looks no further and returns the best it
// has. It only ever cuts off: with no deadline, or one that is not reached,
// results do not depend on the clock.
//
//   const Deadline deadline = Clock::now() + std::chrono::seconds(5);
//   if (IsPast(deadline)) return best;

#include <chrono>
#include <optional>

namespace stowage::packing {

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>;

inline bool IsPast(const Deadline& deadline) {
  return deadline && Clock::now() >= *deadline;
}

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_DEADLINE_H_
