#ifndef STOWAGE_IR_COMPOSITES_H_
#define STOWAGE_IR_COMPOSITES_H_

// Functions composed of several ops: variance, log-sum-exp, norms and einsum. `axes` and
// `keep` are those of ReduceSum (ir/ops.h): all axes when empty; with `keep`, reduced
// dimensions stay as 1.
//
//   Value scores = LogSumExp(logits, {-1});
//   Value length = Norm(x, 2, {1}, /*keep=*/true);
//   Value product = Einsum("bthd,bshd->bhts", {q, k});

#include <initializer_list>
#include <span>
#include <string_view>

#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage {

/// The sum of (x - mean)^2, divided by the count less `correction`: 1 for the unbiased
/// estimate, PyTorch's default, 0 for the population variance. Two passes, so that a large
/// mean causes no cancellation. Error: a correction below 0 or not below the count.
Value Variance(Value x, const Axes& axes = {}, int64_t correction = 1,
               bool keep = false, SourceLoc loc = SourceLoc::Current());

/// log(sum(e^x)) without overflow: the largest element is subtracted first, and no gradient
/// passes through it. -inf where all elements are -inf.
Value LogSumExp(Value x, const Axes& axes = {}, bool keep = false,
                SourceLoc loc = SourceLoc::Current());

/// x^(1/p) for x of at least 0; p above 1. The gradient is 0 where x is 0, as in PyTorch's
/// norms and deviations; the gradient of Sqrt is infinite there.
Value Root(Value x, double p = 2, SourceLoc loc = SourceLoc::Current());

/// (sum |x|^p)^(1/p) for p of at least 1; the largest |x| if p is infinite. The gradient is
/// 0 where all elements are 0, as in PyTorch.
Value Norm(Value x, double p = 2, const Axes& axes = {}, bool keep = false,
           SourceLoc loc = SourceLoc::Current());

/// Einsum as in PyTorch and NumPy: a letter names an axis; letters that the result does not
/// have are summed over. `equation` is "labels,labels,...->labels", one letter for each axis
/// of each operand. Operands are of one float type.
///
///   Value outer = Einsum("i,j->ij", {a, b});
///   Value turned = Einsum("abc->cb", {x});  // sums over a
///
/// Axes that only one operand has are summed first; then each pair of operands, from left to
/// right, is one MatMul between views that permute and reshape. Reshape (ir/ops.h) copies
/// what a view cannot express.
///
/// Errors, which name the equation: no "->", which is never implied; other characters;
/// another number of operands or of axes; a letter twice in one operand (a diagonal) or in
/// the result; a letter of the result that no operand has; an axis with different sizes.
Value Einsum(std::string_view equation, std::span<const Value> operands,
             SourceLoc loc = SourceLoc::Current());
Value Einsum(std::string_view equation, std::initializer_list<Value> operands,
             SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_IR_COMPOSITES_H_
