#ifndef STOWAGE_COMPILE_SUMS_H_
#define STOWAGE_COMPILE_SUMS_H_

// Writes sums and maxima over loops. In vectorized loops, each lane adds up its own elements, and
// the lanes are added at the end, in a fixed order. A sum is therefore the same in every run.
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
  /// Declares variables with these names, for Kernel::ForVectors loops over `count` elements. A
  /// suffix is added to a name that the kernel already uses.
  Sums(Kernel& k, const std::vector<std::string>& names, int64_t count);

  /// Adds `term` to sum number `i`. Call this inside the loop.
  void Add(size_t i, const Expr& term);
  /// Adds up the lanes. Call this after the loops.
  void Finish();

  /// Returns the variable of sum number `i`. It contains the sum after Finish.
  const Expr& name(size_t i) const { return names_[i]; }

 private:
  Kernel& k_;
  const int64_t width_;
  std::vector<Expr> names_;
};

/// A sum of `count` numbers that are added one at a time, in arbitrary loops. For more than 512
/// numbers it uses compensated summation (Kahan 1965), so that the rounding error does not grow
/// with their number.
///
///   LongSum loss(k, "loss", rows);
///   k.For("row", rows, [&](const Expr& row) { loss.Add(k.Load(x, row)); });
class LongSum {
 public:
  /// Declares a variable with this name, which must be unique in the kernel's scope.
  LongSum(Kernel& k, std::string_view name, int64_t count);
  void Add(const Expr& term);

 private:
  Kernel& k_;
  const Expr name_;
  const bool keeps_rest_;
};

/// Declares a variable, the sum of term(i) for i in [0, count), and returns its name. If there are
/// many terms, scalar kernels also use several partial sums (kPartialSums).
Expr WriteSum(Kernel& k, int64_t count,
              const std::function<Expr(const Expr& i)>& term);

/// Declares a variable `largest`, the maximum of element(i) for i in [0, count). It is NaN if an
/// element is NaN.
void WriteLargest(Kernel& k, int64_t count,
                  const std::function<Expr(const Expr& i)>& element);

/// The number of partial sums in a scalar kernel. Compilers can vectorize their addition.
inline constexpr int64_t kPartialSums = 8;
/// Returns the sum of an array of kPartialSums elements.
Expr SumOfArray(const Expr& sums);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_SUMS_H_
