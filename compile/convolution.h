#ifndef STOWAGE_COMPILE_CONVOLUTION_H_
#define STOWAGE_COMPILE_CONVOLUTION_H_

// Provides the geometry of a convolution for kernels in C, and the vectorized convolutions, which
// are matmuls of patches (im2col; Chellapilla et al. 2006).
//
// Vectorized kernels compute a band of rows of y at a time. The patches of a band are a matrix in
// workspace. It has one column for each output position, with zeros for padding:
//
//   conv              y band = w (O, C * kernel) times patches
//   conv_transpose    patches = w^T times y band, added to x
//   conv_weight_grad  w^T += patches times (y band)^T
//
// 1 x 1 convolutions read x directly instead of copying patches. Scalar kernels, and convolutions
// with few filters per group, such as depthwise convolutions, loop over the elements of the
// filters, which are called taps (convolution.cc).

#include <cstdint>
#include <functional>

#include "compile/kernel.h"
#include "ir/windows.h"

namespace stowage::compile {

/// A range [first, end) of indices along an output axis.
struct Range {
  int64_t first = 0, end = 0;
};
/// Returns the output indices for which tap number `tap` does not read padding.
Range RangeOfTap(const ConvDim& dim, int64_t tap);
/// Returns the index along x's axis that tap number `tap` reads for the first output index of
/// `range`.
int64_t ShiftOf(const ConvDim& dim, const Range& range, int64_t tap);

/// The operands, result and geometry of a convolution of x (N, C, in...) with the filters
/// w (O, C / groups, kernel...) to y (N, O, out...).
struct FlatConv {
  FlatConv(const Tensor& x_, const Tensor& w_, const Tensor& y_,
           const Attrs& attrs)
      : x(x_), w(w_), y(y_), g(x.shape(), w.shape(), y.shape(), attrs) {}

  /// These functions return the index of the first element of a row of x, y or w. A row extends
  /// along the last axis. `z` and `row` are the indices along the other two spatial axes.
  Expr XRow(const Expr& n, const Expr& c, const Expr& z, const Expr& row) const;
  Expr YRow(const Expr& n, const Expr& o, const Expr& z, const Expr& row) const;
  Expr WRow(const Expr& o, const Expr& c, const Expr& z, const Expr& row) const;

  const Tensor &x, &w, &y;
  const ConvGeometry g;
};

/// Returns whether the kernel is a matmul of patches.
bool HasPatches(const Kernel& k, const FlatConv& f);

// The following functions require `HasPatches(k, f)`.

/// Returns the number of elements of workspace.
int64_t PatchesScratch(const Kernel& k, const FlatConv& f, bool is_weight_grad);
void WritePatchesConv(Kernel& k, const FlatConv& f);
void WritePatchesConvTranspose(Kernel& k, const FlatConv& f);
void WritePatchesConvWeightGrad(Kernel& k, const FlatConv& f);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_CONVOLUTION_H_
