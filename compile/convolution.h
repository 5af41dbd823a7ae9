#ifndef STOWAGE_COMPILE_CONVOLUTION_H_
#define STOWAGE_COMPILE_CONVOLUTION_H_

// The geometry of a convolution in C, and the convolutions that are matmuls of patches.
//
// Kernels with vectors compute a band of rows of y at a time. The patches of a band, one column
// for each of its positions, are in workspace, with zeros for padding (im2col; Chellapilla et
// al. 2006):
//
//   conv              y band = w (O, C * kernel) times patches
//   conv_transpose    patches = w^T times y band, added to x
//   conv_weight_grad  w^T += patches times (y band)^T
//
// Convolutions of 1 x 1 read x itself. Those of few filters, such as depthwise ones, and scalar
// kernels loop over the taps (convolution.cc).

#include <cstdint>
#include <functional>

#include "compile/kernel.h"
#include "ir/windows.h"

namespace stowage::compile {

/// The places o of an output axis in [first, end) for which a tap is not padding.
struct Range {
  int64_t first = 0, end = 0;
};
Range RangeOfTap(const ConvDim& dim, int64_t tap);
/// The first place of x that a tap reads, at the first place of its range.
int64_t ShiftOf(const ConvDim& dim, const Range& range, int64_t tap);

/// The geometry with x, w and y as flat tensors: (N, C, in), (O, C/g, kernel), (N, O, out).
struct FlatConv {
  FlatConv(const Tensor& x_, const Tensor& w_, const Tensor& y_,
           const Attrs& attrs)
      : x(x_), w(w_), y(y_), g(x.shape(), w.shape(), y.shape(), attrs) {}

  /// The position of a row of x, y or w: everything but the last axis.
  Expr XRow(const Expr& n, const Expr& c, const Expr& z, const Expr& row) const;
  Expr YRow(const Expr& n, const Expr& o, const Expr& z, const Expr& row) const;
  Expr WRow(const Expr& o, const Expr& c, const Expr& z, const Expr& row) const;

  const Tensor &x, &w, &y;
  const ConvGeometry g;
};

/// Whether the kernel is a matmul of patches.
bool HasPatches(const Kernel& k, const FlatConv& f);

/// Elements of workspace. Preconditions, here and below: HasPatches.
int64_t PatchesScratch(const Kernel& k, const FlatConv& f, bool is_weight_grad);
void WritePatchesConv(Kernel& k, const FlatConv& f);
void WritePatchesConvTranspose(Kernel& k, const FlatConv& f);
void WritePatchesConvWeightGrad(Kernel& k, const FlatConv& f);

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_CONVOLUTION_H_
