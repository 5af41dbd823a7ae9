#ifndef STOWAGE_COMPILE_PRODUCTS_H_
#define STOWAGE_COMPILE_PRODUCTS_H_

// Loops of a matrix product, blocked for registers.
//
// A block of sums is held in local arrays while a loop runs over k. Where rows of b are
// contiguous, a block is several rows by several columns; where a and b are contiguous along
// k, it is several columns, each in lanes that are added up at the end. The bounds of the
// innermost loop are constants, so compilers unroll and vectorize it without reordering a
// sum.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "compile/kernel.h"

namespace stowage::compile {

struct Product {
  int64_t m = 1, n = 1, k = 1;
  /// The elements as `real`.
  std::function<Expr(const Expr& i, const Expr& l)> a;
  std::function<Expr(const Expr& l, const Expr& j)> b;
  /// Writes the loops over k, if these are not one of `k` iterations; calls its argument
  /// inside them. Not if is_along_k.
  std::function<void(const std::function<void(const Expr& l)>&)> for_k = {};
  /// Whether a and b are contiguous along k, and b is not along n.
  bool is_along_k = false;
  /// Uses the sum of row i and column j.
  std::function<void(const Expr& i, const Expr& j, const Expr& sum)> store;
};

void WriteProduct(Kernel& k, const Product& product);

/// Calls body(first, size) in loops over [0, count) in steps of `block`, and once more for what
/// is left.
void ForBlocks(
    Kernel& k, std::string_view name, int64_t count, int64_t block,
    const std::function<void(const Expr& first, int64_t size)>& body);

/// Declares `count` arrays of `size` sums, all 0; their names.
std::vector<Expr> SumArrays(Kernel& k, int64_t count, int64_t size);

/// Sums that are added up separately, so that a compiler may vectorize them.
inline constexpr int64_t kLanes = 8;
/// Adds shared(i) * own(array, i) to each of the arrays, of kLanes sums, for i in [0, count).
void AddToLanes(Kernel& k, std::span<const Expr> arrays, int64_t count,
                const std::function<Expr(const Expr& i)>& shared,
                const std::function<Expr(size_t array, const Expr& i)>& own);
/// The sum of such an array.
Expr SumOfLanes(const Expr& lanes);

/// Declares `sum`, the sum over i of term(i) in [0, count), in lanes if there are many.
Expr WriteSum(Kernel& k, int64_t count,
              const std::function<Expr(const Expr& i)>& term);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_PRODUCTS_H_
