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
// the loop over pieces, each rounded. The gradient of a bias is made beside that of the
// weight (planner/fit/epilogues/operand_sums.h). Unlike a fused node (planner/fit/fuse),
// this one rounds once where its parts round each; so it is formed before any lever is
// looked at, from the graph alone, and every budget has the same bits. An op that is cheap
// to run again, as gelu is, stays a node of its own.
//
//   STOWAGE_ASSIGN_OR_RETURN(step, FormEpilogues(std::move(step), device.fusions, {}));

#include <span>
#include <string>

#include "base/result.h"
#include "planner/fit/pieces/pieces.h"
#include "planner/lifetimes.h"

namespace stowage::fit {

/// `step` with epilogues in the place of what follows its products; as it is, where
/// `fusions` has none. A value that is an output is no part but the last, and one that is
/// `named` is made by a node of its own. A node stands where its product stood, and has
/// the name of the last part; with a bias's gradient it stands where the first of the two
/// stood, and both results have the names that they had. Bodies stay as they are. Linear.
Result<PiecedStep> FormEpilogues(PiecedStep step, const Fusions& fusions,
                                 std::span<const std::string> named);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_EPILOGUES_EPILOGUES_H_
