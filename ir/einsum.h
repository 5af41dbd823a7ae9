#ifndef STOWAGE_IR_EINSUM_H_
#define STOWAGE_IR_EINSUM_H_

// Products of tensors of any rank, written as PyTorch's and NumPy's einsum: a letter
// names an axis, what both operands have and the result has not is summed over.
//
//   Value scores = Einsum("bthd,bshd->bhts", {q, k});
//   Value outer = Einsum("i,j->ij", {a, b});
//   Value turned = Einsum("abc->cb", {x});  // sums over a
//
// It is made of other ops: axes that one operand alone has are summed first, then each
// pair of operands is one MatMul, from left to right, between views that permute and
// reshape. What the views cannot express is copied (Reshape in ir/ops.h).

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/source_loc.h"

namespace stowage {

// An image of a graph, as Graphviz text. Nodes are boxes coloured by phase, in
// execution order; nodes that only make views are dashed. Leaves are ellipses,
// outputs plain text, and every edge carries the name and type of its value.
//
//   WriteFile("mlp.dot", ToDot(graph));  // then: dot -Tsvg mlp.dot

/// `graph` as a Graphviz digraph.
std::string ToDot(const Graph& graph);

/// `equation` is "labels,labels,...->labels", a letter for each axis of each operand.
/// Errors, which name the equation: no "->", which is never implied; other characters;
/// another count of operands, or of axes; a letter twice in one operand (a diagonal)
/// or in the result; a letter of the result that no operand has; an axis that has
/// different sizes. Operands are of one float type.
Value Einsum(std::string_view equation, std::span<const Value> operands,
             SourceLoc loc = SourceLoc::Current());
Value Einsum(std::string_view equation, std::initializer_list<Value> operands,
             SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_IR_EINSUM_H_
