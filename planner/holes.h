#ifndef STOWAGE_PLANNER_HOLES_H_
#define STOWAGE_PLANNER_HOLES_H_

// What the body of a cond makes, in bytes outside that hold nothing for a while: in those
// of an operand, from its death in the body on, and in those of a result until it is
// written first.
//
//   address ^
//           |  xxxx aaaaaaa        x, an operand of 2 slots, dies at time 4;
//           |  xxxx  bbb ccc       a, b and c are made later
//           +---------------> time
//
//   PlaceInHoles(&plan);  // of a body, before the rest of it is packed

#include "planner/plan.h"

namespace stowage {

/// Whether `buffer` is the slot of an operand that dies in the body with this plan.
bool IsDyingOperand(const Plan& plan, const PlannedBuffer& buffer);

/// Moves buffers of `plan` from the region of activations into holes, the largest
/// first, each into the smallest hole that has room for it throughout its life. What
/// finds none is left to be packed. Scratch stays: that of a node with bodies must lie
/// where it does whenever these run.
void PlaceInHoles(Plan* plan);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_HOLES_H_
