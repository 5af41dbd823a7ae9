#ifndef STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_
#define STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_

// Epilogues: ops after a matmul that are applied to its sums before they are rounded and stored,
// if the device's library of matmuls can (Fusions::epilogues):
//
//   before                              after
//   m = matmul(x, w)                    h = epilogue_matmul(x, w, b, residual)
//   p = add(m, b)                         {bias, addend}
//   h = add(residual, p)
//   dy = matmul(dz, w)                  dx = epilogue_matmul(dz, w, x) {gelu_grad}
//   dx = gelu_tanh_grad(x, dy)
//   db = reduce_sum(dy)                 dw, db = epilogue_matmul(x, dy)
//   dw = matmul(x, dy)                    {b_sums}
//
// Biases and residuals are added in the forward pass alone: gradients are rounded before they are
// added, as in the loop over micro-batches. The gradient of a bias is computed with that of the
// weight. An epilogue rounds once where its parts would each round, unlike a fused node
// (planner/fit/fuse); it is therefore formed from the graph alone, before any optimization, and
// every budget has the same bits. Ops that are cheap to recompute, such as gelu, stay separate.
//
//   STOWAGE_ASSIGN_OR_RETURN(step, FormEpilogues(std::move(step), device.fusions, {}));

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/lifetimes.h"

namespace stowage::fit {

// Sums over the rows of a matrix, computed by a matmul that reads the same matrix. In the backward
// pass of y = x w + b the gradients of b and of w both read dy:
//
//   before                               after
//   db = reduce_sum(dy) {axes=[0, 1]}    dw, db = epilogue_matmul(x2, dy2) {b_sums}
//   ... what reads db ...                ... what reads db ...
//   dy2 = reshape(dy)
//   x2 = reshape(x)
//   dw = matmul(x2, dy2) {transpose_a}
//
// The node takes the place of the first of the two, whatever is between them. With ranks there
// may be a collective, or a sum of squares of gradients, where one device with micro-batches has
// nothing; the bits of both are equal.
//
//   for (const OperandSums& found : FindOperandSums(graph, layouts, taken)) ...

/// A `matmul` and a `reduce_sum` that may be one node.
struct OperandSums {
  NodeId product = kNoNode;
  NodeId sum = kNoNode;
  /// Whether a is summed, its rows; otherwise b, its columns.
  bool of_a = false;
};

/// All of `graph`, disjoint, in the order of the matmuls. Nodes that are `taken`, by node, are
/// left out. Linear.
std::vector<OperandSums> FindOperandSums(const Graph& graph,
                                         const Layouts& layouts,
                                         std::vector<bool> taken);

/// `step` with epilogues; unmodified if `fusions` has none. An output can only be the last part of
/// an epilogue, and `named` values keep a node of their own. A node takes the place of its matmul
/// and the name of its last part; with the gradient of a bias it takes the place of the first of
/// the two, and both results keep their names. Bodies stay as they are. Linear.
Result<SampledStep> FormEpilogues(SampledStep step, const Fusions& fusions,
                                  std::span<const std::string> named);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_
