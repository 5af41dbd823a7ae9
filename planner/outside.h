#ifndef STOWAGE_PLANNER_OUTSIDE_H_
#define STOWAGE_PLANNER_OUTSIDE_H_

// Which buffers of a body lie outside of its arena: those of its leaves and of its
// outputs, which are where the operands and results of its node are.
//
//   Lifetimes lifetimes = ComputeLifetimes(body, {});
//   std::vector<int32_t> second_of = MoveOutside(body, node, true, &lifetimes);

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "planner/lifetimes.h"

namespace stowage {

/// Moves the buffers of the leaves and outputs of `body`, which is one of `node`'s, into
/// the region kOutside, where they live throughout; but leaves that die in a cond's
/// (LifetimeOptions::dying) do not, nor do its outputs until they are written. What a
/// loop hands on shares one buffer, leaf and output, if its leaf has been read for the
/// last time when anything is written there, or, with `in_place`, where the first node
/// that writes there may write over the leaf. All else that is handed on from one
/// iteration to another gets a second place in the region kIo: what is returned are
/// these, by carried and then summed value, -1 where there is none. Linear in values
/// and operands.
std::vector<int32_t> MoveOutside(const Graph& body, const Node& node,
                                 bool in_place, Lifetimes* lifetimes);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_OUTSIDE_H_
