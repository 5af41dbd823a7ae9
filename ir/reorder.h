#ifndef STOWAGE_IR_REORDER_H_
#define STOWAGE_IR_REORDER_H_

// The same graph with its nodes in another order of execution. What a step
// computes stays the same to the bit; when its values live, and so what memory
// it takes, does not.
//
//   const NodeId order[] = {1, 0, 2};
//   Result<Graph> other = Reorder(graph, order);

#include <span>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// `graph` with the nodes `order`, in that order. Values keep their names,
/// types, roles and layouts, nodes their attributes, phases and origins; leaves
/// keep their order and come first. Error kInvalidArgument when `order` is no
/// permutation of the nodes, or a node would come before one that it reads, or
/// after an update that overwrites what it reads. Linear in nodes and operands.
Result<Graph> Reorder(const Graph& graph, std::span<const NodeId> order);

}  // namespace stowage

#endif  // STOWAGE_IR_REORDER_H_
