#ifndef STOWAGE_PLANNER_FIT_OFFLOAD_SHARE_H_
#define STOWAGE_PLANNER_FIT_OFFLOAD_SHARE_H_

// How much of a step is kept in the host's memory.
//
// A copied byte has a price, as if no copy ran beside a kernel. So what a little
// recomputation can do is left to it, and what it can do only by running whole
// layers again, or not at all, is moved. How much is decided first, in a few
// steps from nothing to everything; pieces and recomputation fit the step that is
// left.
//
//   std::vector<Offloadable> all = FindOffloadable(step);
//   for (const Share share : SharesToTry(all)) {
//     Result<Graph> moved = Offload(step, Select(all, share, /*pieces=*/1));
//   }

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/fit/offload/offload.h"

namespace stowage::fit {

/// The first of the states, and of the forward values 0, 1 or 2 halves of their
/// bytes. Where the batch is in pieces, 2 in place of 1: all pieces are alike.
struct Share {
  size_t states = 0;
  int halves = 0;
  bool again = false;   // forward values are fetched anew (Offloadable::again)
  bool inside = false;  // and so is all that waits in bodies (offload/bodies.h)
  friend auto operator<=>(const Share&, const Share&) = default;
};

/// From nothing to everything, and to everything fetched anew, each once; `all` as
/// FindOffloadable lists it. With `bodies`, nothing, all states and everything are also
/// tried with what waits in bodies.
std::vector<Share> SharesToTry(std::span<const Offloadable> all,
                               bool bodies = false);

/// What is moved of `all` in a step of so many pieces.
std::vector<Offloadable> Select(std::span<const Offloadable> all, Share share,
                                int64_t pieces);

/// How many of `all` are states; they come first.
size_t CountStates(std::span<const Offloadable> all);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_OFFLOAD_SHARE_H_
