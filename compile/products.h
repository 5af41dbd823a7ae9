#ifndef STOWAGE_COMPILE_PRODUCTS_H_
#define STOWAGE_COMPILE_PRODUCTS_H_

// Writes the loops of a matmul with register blocking, and the code that decodes quantized weights.
//
// The sums of a block of the result are held in variables during the loop over k. The terms of each
// sum are added in the order of that loop.
//
// In vectorized kernels, a block is four rows by two vectors of columns of b. If b is not
// contiguous along the columns, the columns are first copied into workspace (the panel). If both
// matrices are contiguous along k and there are few rows, the lanes of a vector are instead partial
// sums along k.
//
// Scalar kernels hold a block in local arrays. A block is four rows by 16 columns, or, if both
// matrices are contiguous along k, the partial sums of four columns. The innermost loop has
// constant bounds, so compilers can unroll and vectorize it without changing the order of a sum.

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "compile/kernel.h"
#include "compile/sums.h"
#include "ir/weight_type.h"

namespace stowage::compile {

/// The matmul of an m x k matrix `a` and a k x n matrix `b`.
struct Product {
  int64_t m = 1, n = 1, k = 1;
  /// These functions return the elements of the matrices, converted to `real`.
  std::function<Expr(const Expr& i, const Expr& l)> a;
  std::function<Expr(const Expr& l, const Expr& j)> b;
  /// Writes the loops over k, and calls its argument inside the innermost loop. If empty, there is
  /// one loop of `k` iterations. Ignored if the kernel computes sums along k (is_along_k).
  std::function<void(const std::function<void(const Expr& l)>&)> for_k = {};
  /// Whether a and b are contiguous along k, and b is not contiguous along n.
  bool is_along_k = false;
  /// Whether b is contiguous along n.
  bool is_along_n = false;
  /// Whether a and b are f32. If false, the matmul is not vectorized.
  bool is_f32 = true;
  /// Workspace of PanelSize elements for columns of b, or null.
  const Tensor* panel = nullptr;
  /// Writes the code that stores the element of the result in row i and column j, `sum`.
  std::function<void(const Expr& i, const Expr& j, const Expr& sum)> store;
};

/// Writes the loops of a matmul.
void WriteProduct(Kernel& k, const Product& product);

/// Writes the loops of a vectorized matmul for the columns [first, end), where `first` and `end`
/// are C expressions. `first` must be a multiple of ColumnBlock. Whole blocks are computed, so b is
/// read and sums are stored up to the next multiple of ColumnBlock. b must be contiguous along n,
/// and m must be at most 4.
void WriteProductColumns(Kernel& k, const Product& product, const Expr& first,
                         const Expr& end);
/// Returns the number of columns of a block in a vectorized kernel.
int64_t ColumnBlock(const Kernel& k);

/// Returns the number of workspace elements for a matmul of an m x k and a k x n matrix, if the
/// k x n matrix is not contiguous along n (Product::panel). Returns 0 if the kernel is scalar, if n
/// is below 4, or if the kernel computes sums along k. `is_along_k` is Product::is_along_k.
int64_t PanelSize(const Kernel& kernel, int64_t m, int64_t n, int64_t k,
                  bool is_along_k);

/// Writes a loop over [0, count) in steps of `block`. Calls body(first, block) to write its body,
/// and body(first, size) to write the code for the remaining `size` elements, if any.
void ForBlocks(
    Kernel& k, std::string_view name, int64_t count, int64_t block,
    const std::function<void(const Expr& first, int64_t size)>& body);

/// Writes the declarations of `count` arrays of `size` zeros, and returns their names.
std::vector<Expr> SumArrays(Kernel& k, int64_t count, int64_t size);

/// Writes loops over i in [0, count) that add shared(i) * own(a, i) to array number a, for each of
/// `arrays`. An array has kPartialSums elements, to which the terms are added in turn.
void AddToArrays(Kernel& k, std::span<const Expr> arrays, int64_t count,
                 const std::function<Expr(const Expr& i)>& shared,
                 const std::function<Expr(size_t array, const Expr& i)>& own);

/// A weight matrix of floats or of quantized blocks (ir/weight_type.h). The rows of a quantized
/// matrix are decoded into workspace one at a time.
///
///   const WeightRows rows(w, k.Int("blocks"));
///   rows.Decode(k, "j", "scratch");
class WeightRows {
 public:
  /// `blocks` is the attribute "blocks" of the op: a WeightType or kNoBlocks. `w` must outlive this
  /// object.
  WeightRows(const Tensor& w, int64_t blocks) : w_(w), blocks_(blocks) {}

  bool is_quantized() const { return blocks_ != kNoBlocks; }
  int64_t rows() const { return w_.shape()[0]; }
  /// Returns the number of weights in a row.
  int64_t width() const;

  /// Writes the code that decodes row `row` to the address `to`. Requires `is_quantized()`.
  void Decode(Kernel& k, const Expr& row, const Expr& to) const;

 private:
  const Tensor& w_;
  int64_t blocks_;
};

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_PRODUCTS_H_
