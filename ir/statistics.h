#ifndef STOWAGE_IR_STATISTICS_H_
#define STOWAGE_IR_STATISTICS_H_

// Reductions that are made of other ops: variance, norms, log-sum-exp. `axes` and
// `keep` are those of ReduceSum (ir/ops.h): all axes when empty; with `keep`, reduced
// dimensions stay as 1.
//
//   Value scores = LogSumExp(logits, {-1});
//   Value length = Norm(x, 2, {1}, /*keep=*/true);

#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/source_loc.h"

namespace stowage {

/// The mean of (x - mean)^2, divided by the count less `correction`: 1 for the
/// estimate from a sample, PyTorch's default, 0 for the variance of what is there.
/// Two passes: nothing cancels where the mean is large. Error: a correction below 0
/// or not below the count.
Value Variance(Value x, const Axes& axes = {}, int64_t correction = 1,
               bool keep = false, SourceLoc loc = SourceLoc::Current());

/// log(sum(e^x)), which does not overflow: the largest element is taken out first,
/// and no gradient goes through it. -inf where all elements are.
Value LogSumExp(Value x, const Axes& axes = {}, bool keep = false,
                SourceLoc loc = SourceLoc::Current());

/// x^(1/p) of sums x that are at least 0; p above 1. The gradient is 0 where x is 0, as
/// PyTorch's is of norms and deviations; that of Sqrt is infinite there.
Value Root(Value x, double p = 2, SourceLoc loc = SourceLoc::Current());

/// (sum |x|^p)^(1/p); p at least 1 or infinite, which is the largest |x|. Where all are 0
/// the gradient is 0, as in PyTorch.
Value Norm(Value x, double p = 2, const Axes& axes = {}, bool keep = false,
           SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_IR_STATISTICS_H_
