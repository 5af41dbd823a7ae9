#ifndef STOWAGE_CPU_KERNELS_CONVOLUTION_H_
#define STOWAGE_CPU_KERNELS_CONVOLUTION_H_

// Declares the algorithms of conv, conv_transpose and conv_weight_grad that convolution.cc
// selects from, except for the gathered matmul, which is in convolution.cc. Each algorithm has
// a function that returns the size of its scratch memory, and a function that runs it:
//
//   if (TakesByBatch<T>(g)) {
//     ConvByBatch(g, /*to_x=*/false, x, w, y, launch.workspace.data(), pool);
//   }
//
// If `to_x` is true, a function computes x from y (conv_transpose). Otherwise it computes y
// from x (conv). Scratch memory is aligned to 64 bytes. The functions named Bf16 multiply pairs
// of bf16 elements (bf16_gemm.h), sum in f32 and round each result once.

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

// The ByBatch algorithms compute convolutions of small feature maps. A map of 4 x 4 elements
// has lines too short for registers, and many of its taps read only padding. In these
// algorithms, a register holds one element of a map for as many images as the register has
// lanes. Each element of a result is a sum over the taps that read a source element. Each term
// of the sum is a matmul of the packed filters (rows, channels) and the packed source
// (channels, images). Padding costs nothing.

/// Returns whether the maps are small, there are enough images to fill a register, and the
/// groups are large enough for a matmul.
template <typename T>
bool TakesByBatch(const ConvGeometry& g);

template <typename T>
Bytes ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads);
/// Computes each element of the result as a sum over taps, in order, of sums over channels, in
/// order.
template <typename T>
void ConvByBatch(const ConvGeometry& g, bool to_x, const T* from,
                 const T* filters, T* to, std::byte* scratch, ThreadPool& pool);
Bytes Bf16ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads);
/// Computes the same as ConvByBatch, with sums over pairs of channels.
void Bf16ConvByBatch(const ConvGeometry& g, bool to_x, const uint16_t* from,
                     const uint16_t* filters, uint16_t* to, std::byte* scratch,
                     ThreadPool& pool);

template <typename T>
Bytes WeightGradByBatchScratch(const ConvGeometry& g, int threads);
/// Computes dw. Each element is a sum over the elements of a map of dy, in order, of sums over
/// images, in order.
template <typename T>
void WeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                       std::byte* scratch, ThreadPool& pool);
Bytes Bf16WeightGradByBatchScratch(const ConvGeometry& g, int threads);
/// Computes the same as WeightGradByBatch, with sums over pairs of images.
void Bf16WeightGradByBatch(const ConvGeometry& g, const uint16_t* x,
                           const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                           ThreadPool& pool);

// The Depthwise algorithms compute convolutions whose groups have one channel and one filter.
// These convolutions have only a few multiply-adds per element and no matmul. A channel of an
// image is gathered into a Slab (conv_walks.h), and one loop computes the results over the
// slab's whole length.

inline bool IsDepthwise(const ConvGeometry& g) {
  return g.channels == 1 && g.filters == 1;
}

/// Returns the scratch size of Depthwise and DepthwiseWeightGrad for these walks.
template <typename T>
Bytes DepthwiseScratch(const Walks& walks, int threads);
/// Computes `to` (N, C, elements of the walks) from `source` (N, C, ...) and one filter per
/// channel. Elements of `to` outside the walks are not written.
template <typename T>
void Depthwise(const ConvGeometry& g, const Walks& walks, const T* source,
               const T* filters, T* to, std::byte* scratch, ThreadPool& pool);
/// Computes dw. Each element is a sum over images in order. Requires that `walks` is
/// ForwardWalks(g).
template <typename T>
void DepthwiseWeightGrad(const ConvGeometry& g, const Walks& walks, const T* x,
                         const T* dy, T* dw, std::byte* scratch,
                         ThreadPool& pool);

// The DepthwiseByBatch algorithms compute depthwise convolutions of small and medium maps. The
// lanes of a register hold the images of a batch, so strides and lines of any length cost
// nothing. For one register of images at a time, a few channels are transposed into a frame of
// zeros, multiplied and added tap by tap, and transposed back.

/// Returns whether IsDepthwise(g) is true, there are enough images to fill a register, and a
/// few maps with all lanes fit a cache.
template <typename T>
bool TakesDepthwiseByBatch(const ConvGeometry& g);

/// Returns the scratch size of DepthwiseByBatch and DepthwiseWeightGradByBatch.
template <typename T>
Bytes DepthwiseByBatchScratch(const ConvGeometry& g, int threads);
/// Computes each element of the result as a sum over taps in order.
template <typename T>
void DepthwiseByBatch(const ConvGeometry& g, bool to_x, const T* from,
                      const T* filters, T* to, std::byte* scratch,
                      ThreadPool& pool);
/// Computes dw. Each element is a sum over lanes of the sums of each lane. The sum of a lane is
/// a sum over its images of sums over the elements of dy, in order.
template <typename T>
void DepthwiseWeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy,
                                T* dw, std::byte* scratch, ThreadPool& pool);

// WeightGrad computes conv_weight_grad as a matmul,
//
//   dw^T (channels * taps, filters) = x gathered (channels * taps, elements) *
//                                     dy^T (elements, filters),
//
// but without gathering. The elements that a tap reads along a line are adjacent in a slab
// (conv_walks.h), so a row of the left operand is a pointer into a slab. The right operand is
// dy, which is transposed one band of elements at a time.

template <typename T>
Bytes WeightGradScratch(const ConvGeometry& g, int threads);
/// Computes dw. Each element is a sum over images and the elements of dy, in order. The sum is
/// split by images into at most 16 sums, which are added in order.
template <typename T>
void WeightGrad(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                std::byte* scratch, ThreadPool& pool);
Bytes Bf16WeightGradScratch(const ConvGeometry& g, int threads);
/// Computes the same as WeightGrad, with sums over pairs of elements along a line. If a line
/// has an odd number of elements, its last element is paired with zeros.
void Bf16WeightGrad(const ConvGeometry& g, const uint16_t* x,
                    const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                    ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONVOLUTION_H_
