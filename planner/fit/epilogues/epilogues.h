#ifndef STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_
#define STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_

// Combines matmuls with the ops that follow them, if the device's matmul library supports this
// (Fusions::epilogues). An *epilogue* is applied to the sums of a matmul before they are rounded
// and stored:
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
// Epilogues add biases and residuals only in the forward pass. In the backward pass, gradients are
// rounded before they are added, because a loop over micro-batches also rounds them before it adds
// them. The gradient of a bias is computed together with the gradient of the weight. An epilogue
// rounds once where the separate ops would each round, so it changes results, unlike a fused node
// (planner/fit/fuse). Epilogues therefore depend only on the graph and are formed before any
// optimization. The results of a step are then bit-equal in every budget. Ops that are cheap to
// recompute, such as gelu, stay separate.
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

// Combines a matmul with a reduce_sum over the rows of the same matrix. In the backward pass of
// y = x w + b, the gradients of b and of w both read dy:
//
//   before                               after
//   db = reduce_sum(dy) {axes=[0, 1]}    dw, db = epilogue_matmul(x2, dy2) {b_sums}
//   ... nodes that read db ...           ... nodes that read db ...
//   dy2 = reshape(dy)
//   x2 = reshape(x)
//   dw = matmul(x2, dy2) {transpose_a}
//
// The new node has the position of the first of the two nodes, whichever nodes are between them. In
// a distributed step, a collective or a sum of squares of gradients may be between them. In a step
// with micro-batches on one device, neither is. The two nodes are combined in both steps, so the
// results of both steps are bit-equal.
//
//   for (const OperandSums& found : FindOperandSums(graph, layouts, taken)) ...

/// A `matmul` and a `reduce_sum` that can be combined into one node.
struct OperandSums {
  NodeId product = kNoNode;
  NodeId sum = kNoNode;
  /// If true, operand a of the matmul is summed, otherwise operand b. The sum is over the dimension
  /// over which the matmul sums.
  bool of_a = false;
};

/// Returns pairs of a matmul and a reduce_sum in `graph` that can be combined, in the order of the
/// matmuls. No node is in two pairs. `taken` must have an entry for each node. Nodes whose entry is
/// true are excluded. Linear.
std::vector<OperandSums> FindOperandSums(const Graph& graph,
                                         const Layouts& layouts,
                                         std::vector<bool> taken);

/// Returns `step` with epilogues, or unmodified if `fusions` does not support them. Only the last
/// op of an epilogue may compute an output. `named` contains names of values. The nodes that
/// compute these values stay separate. A new node has the position of its matmul, and its result
/// has the name of the last op's result. A new node that also computes the gradient of a bias has
/// the position of the first of its two nodes, and both results keep their names. Bodies are
/// unmodified. Propagates errors of GraphBuilder, which indicate a bug. Linear.
Result<SampledStep> FormEpilogues(SampledStep step, const Fusions& fusions,
                                  std::span<const std::string> named);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_
