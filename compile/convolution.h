#ifndef STOWAGE_COMPILE_CONVOLUTION_H_
#define STOWAGE_COMPILE_CONVOLUTION_H_

// Provides the geometry of a convolution for kernels in C, and the vectorized convolutions, which
// are matmuls of patches (im2col; Chellapilla et al. 2006).
//
// Vectorized kernels compute a band of rows of y at a time. The patches of the band are stored in
// workspace, one column for each output position, with zeros for padding:
//
//   conv              y band = w (O, C * kernel) times patches
//   conv_transpose    patches = w^T times y band, added to x
//   conv_weight_grad  w^T += patches times (y band)^T
//
// Convolutions of 1 x 1 read x directly. Convolutions with few filters, such as depthwise ones, and
// all scalar kernels loop over the elements of the filter, the taps (convolution.cc).

#include <cstdint>
#include <functional>

#include "compile/kernel.h"
#include "ir/windows.h"

namespace stowage::compile {

/// A range [first, end) of indices along an output axis.
struct Range {
  int64_t first = 0, end = 0;
};
/// Returns the output indices for which the tap `tap` does not read padding.
Range RangeOfTap(const ConvDim& dim, int64_t tap);
/// Returns the index along x's axis that the tap reads for the first output index of `range`.
int64_t ShiftOf(const ConvDim& dim, const Range& range, int64_t tap);

/// The geometry of a convolution of x (N, C, in) and w (O, C/g, kernel) to y (N, O, out), where
/// `in`, `kernel` and `out` represent all spatial axes.
struct FlatConv {
  FlatConv(const Tensor& x_, const Tensor& w_, const Tensor& y_,
           const Attrs& attrs)
      : x(x_), w(w_), y(y_), g(x.shape(), w.shape(), y.shape(), attrs) {}

  /// Return the index of the first element of a row of x, y or w. A row extends along the last
  /// axis.
  Expr XRow(const Expr& n, const Expr& c, const Expr& z, const Expr& row) const;
  Expr YRow(const Expr& n, const Expr& o, const Expr& z, const Expr& row) const;
  Expr WRow(const Expr& o, const Expr& c, const Expr& z, const Expr& row) const;

  const Tensor &x, &w, &y;
  const ConvGeometry g;
};

/// Returns whether the kernel is a matmul of patches.
bool HasPatches(const Kernel& k, const FlatConv& f);

/// Returns the number of elements of workspace. This and the functions below require HasPatches.
int64_t PatchesScratch(const Kernel& k, const FlatConv& f, bool is_weight_grad);
void WritePatchesConv(Kernel& k, const FlatConv& f);
void WritePatchesConvTranspose(Kernel& k, const FlatConv& f);
void WritePatchesConvWeightGrad(Kernel& k, const FlatConv& f);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_CONVOLUTION_H_
