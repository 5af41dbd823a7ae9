#ifndef STOWAGE_COMPILE_SUMS_H_
#define STOWAGE_COMPILE_SUMS_H_

// Writes code that computes sums and maxima over loops. In vectorized loops, each lane adds up its
// own elements, and the lanes are added at the end, in a fixed order. A sum is therefore the same
// in every run.
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

/// One or several sums over loops that Kernel::ForVectors writes.
class Sums {
 public:
  /// Writes the declarations of variables with the names `names`, one for each sum. The loops must
  /// have `count` iterations. A suffix is added to a name that the kernel already uses.
  Sums(Kernel& k, const std::vector<std::string>& names, int64_t count);

  /// Writes the addition of `term` to sum number `i`. Call this function inside the loop.
  void Add(size_t i, const Expr& term);
  /// Writes the addition of the lanes. Call this function after the loops.
  void Finish();

  /// Returns the variable of sum number `i`. It contains the sum after Finish.
  const Expr& name(size_t i) const { return names_[i]; }

 private:
  Kernel& k_;
  const int64_t width_;
  std::vector<Expr> names_;
};

/// A sum of numbers that are added one at a time, in any loops. Sums of more than 512 numbers use
/// compensated summation (Kahan 1965), so that the rounding error does not grow with the number of
/// terms.
///
///   LongSum loss(k, "loss", rows);
///   k.For("row", rows, [&](const Expr& row) { loss.Add(k.Load(x, row)); });
class LongSum {
 public:
  /// Writes the declaration of the variable `name`, which is a sum of at most `count` numbers. The
  /// name must be unique in the scope.
  LongSum(Kernel& k, std::string_view name, int64_t count);
  /// Writes the addition of `term`.
  void Add(const Expr& term);

 private:
  Kernel& k_;
  const Expr name_;
  const bool keeps_rest_;
};

/// Writes code that computes the sum of term(i) for i in [0, count), and returns the name of the
/// variable with the sum. If there are many terms, scalar kernels have several partial sums
/// (kPartialSums), and sums of blocks of 256 terms are added as in LongSum.
Expr WriteSum(Kernel& k, int64_t count,
              const std::function<Expr(const Expr& i)>& term);

/// Writes code that computes the maximum of element(i) for i in [0, count), in a variable called
/// `largest`. It is NaN if an element is NaN. Requires `count >= 1`.
void WriteLargest(Kernel& k, int64_t count,
                  const std::function<Expr(const Expr& i)>& element);

/// The number of partial sums in a scalar kernel. Compilers can vectorize the additions to them.
inline constexpr int64_t kPartialSums = 8;
/// Returns an expression for the sum of an array of kPartialSums elements, where `sums` is its
/// name.
Expr SumOfArray(const Expr& sums);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_SUMS_H_
