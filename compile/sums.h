#ifndef STOWAGE_COMPILE_SUMS_H_
#define STOWAGE_COMPILE_SUMS_H_

// Sums and maxima over loops. In vectors, each lane adds up its own elements; at the end the
// lanes are added in a fixed order, so that a sum is the same on every run.
//
//   Sums sums(k, {"total"}, n);
//   k.ForVectors("j", n, [&](const Expr& j) { sums.Add(0, k.Load(x, j)); });
//   sums.Finish();  // `total` is the sum

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/kernel.h"

namespace stowage::compile {

class Sums {
 public:
  /// Declares variables of these names, for Kernel::ForVectors loops over `count`. The names are
  /// unique in the kernel's scope.
  Sums(Kernel& k, const std::vector<std::string>& names, int64_t count);

  /// In such a loop, adds `term` to sum `i`, a literal.
  void Add(size_t i, const Expr& term);
  /// Adds up the lanes, behind the loops.
  void Finish();

  /// The name of sum `i`, valid after Finish.
  const Expr& name(size_t i) const { return names_[i]; }

 private:
  Kernel& k_;
  const int64_t width_;
  std::vector<Expr> names_;
};

/// A sum of `count` numbers that are added one at a time, in any loops. Beyond some hundreds, it
/// also keeps what rounding cuts off (Kahan 1965), so that its error does not grow with them.
///
///   LongSum loss(k, "loss", rows);
///   k.For("row", rows, [&](const Expr& row) { loss.Add(k.Load(x, row)); });
class LongSum {
 public:
  /// Declares a variable of this name, which is unique in the kernel's scope.
  LongSum(Kernel& k, std::string_view name, int64_t count);
  void Add(const Expr& term);

 private:
  Kernel& k_;
  const Expr name_;
  const bool keeps_rest_;
};

/// Declares a sum of term(i) over i in [0, count) and returns its name. Scalar kernels add in
/// lanes, too, if there are many terms.
Expr WriteSum(Kernel& k, int64_t count,
              const std::function<Expr(const Expr& i)>& term);

/// Declares `largest`, the largest of element(i) over i in [0, count); NaN if one of them is.
void WriteLargest(Kernel& k, int64_t count,
                  const std::function<Expr(const Expr& i)>& element);

/// The partial sums of a scalar kernel, which compilers can vectorize.
inline constexpr int64_t kPartialSums = 8;
/// The sum of an array of them.
Expr SumOfArray(const Expr& sums);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_SUMS_H_
