#include "ir/statistics.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/shape.h"

namespace stowage {
namespace {

// x's shape with `axes` of size 1, as ReduceSum keeps it: what is reduced is brought
// to it by a reshape. Precondition: the axes are in range.
Value WithoutOnes(Value kept, const Axes& axes, bool keep, SourceLoc loc) {
  if (keep || !kept.ok()) return kept;
  std::vector<bool> is_reduced(static_cast<size_t>(kept.rank()), axes.empty());
  for (const int64_t axis : axes) {
    is_reduced[static_cast<size_t>(axis < 0 ? axis + kept.rank() : axis)] =
        true;
  }
  Shape shape;
  for (int i = 0; i < kept.rank(); ++i) {
    if (!is_reduced[static_cast<size_t>(i)]) shape.push_back(kept.dim(i));
  }
  return Reshape(kept, shape, loc);
}

}  // namespace

Value Variance(Value x, const Axes& axes, int64_t correction, bool keep,
               SourceLoc loc) {
  if (!x.ok()) return x;
  const Value mean = ReduceMean(x, axes, /*keep=*/true, loc);
  if (!mean.ok()) return mean;
  const int64_t count = x.shape().num_elements() / mean.shape().num_elements();
  if (correction < 0 || correction >= count) {
    return x.builder()->Fail(
        StrCat("[variance] correction ", correction, " for ", count,
               " numbers; expected at least 0 and fewer than they are"),
        loc);
  }
  const Value sum = ReduceSum(Square(Sub(x, mean, loc), loc), axes, keep, loc);
  return MulScalar(sum, 1 / static_cast<double>(count - correction), loc);
}

Value LogSumExp(Value x, const Axes& axes, bool keep, SourceLoc loc) {
  if (!x.ok()) return x;
  Value most = StopGradient(ReduceMax(x, axes, /*keep=*/true, loc), loc);
  if (!most.ok()) return most;
  // Infinities stay what they are where nothing is taken out.
  const Value zero = Fill(*x.builder(), 0, x.dtype(), {}, loc);
  most = Where(IsNan(Sub(most, most, loc), loc), zero, most, loc);
  const Value rest = Exp(Sub(x, most, loc), loc);
  const Value log = Log(ReduceSum(rest, axes, /*keep=*/true, loc), loc);
  return WithoutOnes(Add(log, most, loc), axes, keep, loc);
}

Value Root(Value x, double p, SourceLoc loc) {
  if (!x.ok()) return x;
  const auto number = [&](double value) {
    return Fill(*x.builder(), value, x.dtype(), {}, loc);
  };
  const Value is_zero = Equal(x, number(0), loc);
  const Value some = Where(is_zero, number(1), x, loc);
  return Where(is_zero, number(0),
               p == 2 ? Sqrt(some, loc) : Pow(some, number(1 / p), loc), loc);
}

Value Norm(Value x, double p, const Axes& axes, bool keep, SourceLoc loc) {
  if (!x.ok()) return x;
  if (!(p >= 1)) {
    return x.builder()->Fail(
        StrCat("[norm] p is ", p, "; expected a number of at least 1"), loc);
  }
  if (std::isinf(p)) return ReduceMax(Abs(x, loc), axes, keep, loc);
  if (p == 1) return ReduceSum(Abs(x, loc), axes, keep, loc);
  const Value power =
      p == 2 ? Square(x, loc)
             : Pow(Abs(x, loc), Fill(*x.builder(), p, x.dtype(), {}, loc), loc);
  return Root(ReduceSum(power, axes, keep, loc), p, loc);
}

}  // namespace stowage
