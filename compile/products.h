#ifndef STOWAGE_COMPILE_PRODUCTS_H_
#define STOWAGE_COMPILE_PRODUCTS_H_

// Loops of a matrix product, blocked for registers.
//
// A block of sums is held in local variables while the inner loop runs over k. Where rows of
// b are contiguous, a block is several rows by several columns; where a and b are contiguous
// along k, it is several columns, each in lanes that are added up at the end. Bounds of loops are
// constants, so compilers unroll and vectorize the innermost loops without reordering a sum.

#include <cstdint>
#include <functional>

#include "compile/kernel.h"

namespace stowage::compile {

struct Product {
  int64_t m = 1, n = 1, k = 1;
  /// The elements as `real`.
  std::function<Expr(const Expr& i, const Expr& l)> a;
  std::function<Expr(const Expr& l, const Expr& j)> b;
  /// Whether a and b are contiguous along k, and b is not along n.
  bool is_along_k = false;
  /// Uses the sum of row i and column j.
  std::function<void(const Expr& i, const Expr& j, const Expr& sum)> store;
};

void WriteProduct(Kernel& k, const Product& product);

/// Declares `sum`, the sum over i of term(i) in [0, count), in lanes if there are many.
Expr WriteSum(Kernel& k, int64_t count,
              const std::function<Expr(const Expr& i)>& term);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_PRODUCTS_H_
