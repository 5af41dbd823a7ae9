#ifndef STOWAGE_PLANNER_FIT_EPILOGUES_OPERAND_SUMS_H_
#define STOWAGE_PLANNER_FIT_EPILOGUES_OPERAND_SUMS_H_

// Sums over the rows of a matrix, which a product that reads the same matrix can make on
// its way. In the backward pass of y = x w + b the gradients of b and of w both read dy:
//
//   before                               after
//   db = reduce_sum(dy) {axes=[0, 1]}    dw, db = epilogue_matmul(x2, dy2) {b_sums}
//   ... what reads db ...                ... what reads db ...
//   dy2 = reshape(dy)
//   x2 = reshape(x)
//   dw = matmul(x2, dy2) {transpose_a}
//
// The one node stands where the first of the two stood, whatever lies between them: an
// exchange among ranks does, or a sum of gradients' squares, where one device that takes the
// batch in pieces has nothing, and the bits of both are the same.
//
//   for (const OperandSums& found : FindOperandSums(graph, layouts, taken)) ...

#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"

namespace stowage::fit {

/// A `matmul` and a `reduce_sum` that may be one node.
struct OperandSums {
  NodeId product = kNoNode;
  NodeId sum = kNoNode;
  /// Whether a is summed, its rows; otherwise b, its columns.
  bool of_a = false;
};

/// All of `graph`, in the order of the products; none in two of them. Nodes that are
/// `taken`, which has an entry for each, are no parts. Linear.
std::vector<OperandSums> FindOperandSums(const Graph& graph,
                                         const Layouts& layouts,
                                         std::vector<bool> taken);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_EPILOGUES_OPERAND_SUMS_H_
