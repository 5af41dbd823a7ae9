#ifndef STOWAGE_COMPILE_PRODUCTS_H_
#define STOWAGE_COMPILE_PRODUCTS_H_

// Loops of a matmul, blocked for registers, and the decoding of its quantized weights.
//
// A block of sums is held in variables while a loop runs over k, which is the order in which
// each sum is added up.
//
// In vectors, a block is four rows by two vectors of columns of b. Where b is not contiguous
// along the columns, they are first copied into workspace; with few rows, the sums are instead
// added in lanes along k. Scalar kernels have local arrays: of four rows by 16 columns, or
// along k of four columns in partial sums. The bounds of the innermost loop are constants, so
// compilers unroll and vectorize it without reordering a sum.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "compile/kernel.h"
#include "compile/sums.h"
#include "ir/weight_type.h"

namespace stowage::compile {

/// One matmul: m x k times k x n.
struct Product {
  int64_t m = 1, n = 1, k = 1;
  /// The elements as `real`.
  std::function<Expr(const Expr& i, const Expr& l)> a;
  std::function<Expr(const Expr& l, const Expr& j)> b;
  /// Writes the loops over k, unless they are one loop of `k` iterations, and calls its
  /// argument inside them. Unused if is_along_k.
  std::function<void(const std::function<void(const Expr& l)>&)> for_k = {};
  /// Whether a and b are contiguous along k, and b is not along n.
  bool is_along_k = false;
  /// Whether b is contiguous along n.
  bool is_along_n = false;
  /// Whether a and b are f32; otherwise the kernel has no vectors.
  bool is_f32 = true;
  /// Workspace of PanelSize elements for columns of b; null: none.
  const Tensor* panel = nullptr;
  /// Uses the sum of row i and column j.
  std::function<void(const Expr& i, const Expr& j, const Expr& sum)> store;
};

void WriteProduct(Kernel& k, const Product& product);

/// In vectors, the columns [first, end) alone, which are known when the code runs. `first` is a
/// multiple of ColumnBlock; b, which is contiguous along n, is read and sums are stored up to
/// the next one from `end` on. m is at most 4.
void WriteProductColumns(Kernel& k, const Product& product, const Expr& first,
                         const Expr& end);
int64_t ColumnBlock(const Kernel& k);

/// The workspace with which a kernel multiplies an m x k matrix by a k x n matrix that is not
/// contiguous along n, in elements; 0: none, since it adds along k. `is_along_k` is Product's.
int64_t PanelSize(const Kernel& kernel, int64_t m, int64_t n, int64_t k,
                  bool is_along_k);

/// Calls body(first, size) in a loop over [0, count) in steps of `block`, and once for the
/// remainder.
void ForBlocks(
    Kernel& k, std::string_view name, int64_t count, int64_t block,
    const std::function<void(const Expr& first, int64_t size)>& body);

/// Declares `count` arrays of `size` zeros and returns their names.
std::vector<Expr> SumArrays(Kernel& k, int64_t count, int64_t size);

/// Adds shared(i) * own(array, i) to each of the arrays, of kPartialSums sums, for i in
/// [0, count).
void AddToArrays(Kernel& k, std::span<const Expr> arrays, int64_t count,
                 const std::function<Expr(const Expr& i)>& shared,
                 const std::function<Expr(size_t array, const Expr& i)>& own);

/// A matrix of floats or, if it is frozen, of quantized blocks (ir/weight_type.h), whose rows
/// are decoded one at a time into workspace.
///
///   const WeightRows rows(w, k.Int("blocks"));
///   rows.Decode(k, "j", "scratch");
class WeightRows {
 public:
  /// `blocks` is a WeightType or kNoBlocks. `w` must outlive this.
  WeightRows(const Tensor& w, int64_t blocks) : w_(w), blocks_(blocks) {}

  bool is_quantized() const { return blocks_ != kNoBlocks; }
  int64_t rows() const { return w_.shape()[0]; }
  /// Numbers of a row.
  int64_t width() const;

  /// Writes the numbers of row `row`, which is quantized, to `to`, an address.
  void Decode(Kernel& k, const Expr& row, const Expr& to) const;

 private:
  const Tensor& w_;
  int64_t blocks_;
};

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_PRODUCTS_H_
