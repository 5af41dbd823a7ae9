#ifndef STOWAGE_CPU_KERNELS_CONV_WEIGHT_GRAD_H_
#define STOWAGE_CPU_KERNELS_CONV_WEIGHT_GRAD_H_

// conv_weight_grad as a product of matrices,
//
//   dw^T (channels * taps, filters) = x gathered (channels * taps, elements) by
//                                     dy^T (elements, filters),
//
// of which nothing is gathered: what a tap meets along a line are neighbours in a slab
// (conv_walks.h), so a row of the left operand is a pointer into one. The right operand
// is dy, transposed a band of elements at a time.
//
//   WeightGrad(g, x, dy, dw, launch.workspace.data(), pool);

#include "base/bytes.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// Bytes of scratch, aligned to 64, that WeightGrad wants.
template <typename T>
Bytes WeightGradScratch(const ConvGeometry& g, int threads);

/// dw. Every element is a sum over images and dy's elements in order, cut by images into
/// at most 16 sums, which are added in order.
template <typename T>
void WeightGrad(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                std::byte* scratch, ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONV_WEIGHT_GRAD_H_
