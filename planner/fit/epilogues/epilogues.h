#ifndef STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_
#define STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_

// What follows a product, done to its sums before they are rounded and stored, where a
// device's library of products can (Fusions::epilogues):
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
// Sums and residuals are taken in the forward pass alone: gradients add up as they do in
// the loop over micro-batches, each rounded. The gradient of a bias is made beside that of the
// weight (planner/fit/epilogues/epilogues.h). Unlike a fused node (planner/fit/fuse),
// this one rounds once where its parts round each; so it is formed before any optimization is
// looked at, from the graph alone, and every budget has the same bits. An op that is cheap
// to run again, as gelu is, stays a node of its own.
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
// batch in micro-batches has nothing, and the bits of both are the same.
//
//   for (const OperandSums& found : FindOperandSums(graph, layouts, taken)) ...

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

/// `step` with epilogues in the place of what follows its products; as it is, where
/// `fusions` has none. A value that is an output is no part but the last, and one that is
/// `named` is made by a node of its own. A node stands where its product stood, and has
/// the name of the last part; with a bias's gradient it stands where the first of the two
/// stood, and both results have the names that they had. Bodies stay as they are. Linear.
Result<SampledStep> FormEpilogues(SampledStep step, const Fusions& fusions,
                                  std::span<const std::string> named);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_
