#ifndef STOWAGE_COMPILE_SCALAR_H_
#define STOWAGE_COMPILE_SCALAR_H_

// Elementwise ops as C expressions of one element.
//
// One table serves the ops on their own, chains of them that the planner fused into one
// node, and the activations inside other ops (glu, matmul epilogues).
//
//   ScalarExpr(OpKind::kMul, attrs, {"a", "b"}, k);  // "a * b"

#include <optional>
#include <span>

#include "compile/kernel.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"

namespace stowage::compile {

/// Whether ScalarExpr has an expression for `op`.
bool IsScalarOp(OpKind op);

/// Nothing if `op` is not elementwise. Arguments are evaluated several times, so they
/// should be variables or elements. `dtype` is that of the operands: of integers, only
/// arithmetic and comparisons.
std::optional<Expr> ScalarExpr(OpKind op, const Attrs& attrs,
                               std::span<const Expr> args, DType dtype,
                               const Kernel& k);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_SCALAR_H_
