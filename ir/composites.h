#ifndef STOWAGE_IR_COMPOSITES_H_
#define STOWAGE_IR_COMPOSITES_H_

// Provides functions that are composed of several ops: variance, log-sum-exp, norms and einsum.
// `axes` and `keep` have the same meaning as in ReduceSum (ir/ops.h). If `axes` is empty, all axes
// are reduced. With `keep`, reduced dimensions have size 1 in the result. Otherwise they are
// removed.
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

/// Returns the sum of (x - mean)^2, divided by count - correction, where count is the number of
/// elements that are reduced to one result. A `correction` of 1 gives the unbiased estimate,
/// PyTorch's default, and 0 gives the population variance. The mean is computed in a separate pass,
/// so a large mean causes no cancellation. Records an error unless `correction` is in [0, count).
Value Variance(Value x, const Axes& axes = {}, int64_t correction = 1,
               bool keep = false, SourceLoc loc = SourceLoc::Current());

/// Returns log(sum(e^x)). To avoid overflow, the largest element is subtracted before e^x is
/// computed, and added to the logarithm. It is treated as a constant in the gradient. The result is
/// -inf where all elements are -inf.
Value LogSumExp(Value x, const Axes& axes = {}, bool keep = false,
                SourceLoc loc = SourceLoc::Current());

/// Returns x^(1/p). Requires `x >= 0` and `p > 1`. Where x is 0, the gradient is 0, as in PyTorch's
/// norms and standard deviations. The gradient of Sqrt is infinite there.
Value Root(Value x, double p = 2, SourceLoc loc = SourceLoc::Current());

/// Returns the p-norm, (sum |x|^p)^(1/p), or the largest |x| if p is infinite. Records an error
/// unless p >= 1. The gradient is 0 where all elements are 0, as in PyTorch.
Value Norm(Value x, double p = 2, const Axes& axes = {}, bool keep = false,
           SourceLoc loc = SourceLoc::Current());

/// Computes einsum as in PyTorch and NumPy. `equation` has the form "labels,labels,...->labels",
/// with one letter for each axis of each operand. Equal letters denote the same axis. Axes whose
/// letters are not in the result are summed. All operands must have the same float type. At least
/// one operand is required.
///
///   Value outer = Einsum("i,j->ij", {a, b});
///   Value turned = Einsum("abc->cb", {x});  // sums over a
///
/// Operands are combined from left to right, each by one MatMul with permuted and reshaped
/// operands. Axes that are summed and that only one operand has are reduced before the matmul. A
/// copy is inserted where strides cannot express a reshaped operand.
///
/// Records an error, which quotes the equation, in these cases:
/// - "->" is missing, since the result is never implied, or a label is not a letter.
/// - The number of operands, or the number of axes of an operand, differs from the equation.
/// - A letter occurs twice in one operand (a diagonal) or in the result.
/// - The result has a letter that no operand has.
/// - The sizes of an axis differ between operands.
Value Einsum(std::string_view equation, std::span<const Value> operands,
             SourceLoc loc = SourceLoc::Current());
Value Einsum(std::string_view equation, std::initializer_list<Value> operands,
             SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_IR_COMPOSITES_H_
