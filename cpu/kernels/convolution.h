#ifndef STOWAGE_CPU_KERNELS_CONVOLUTION_H_
#define STOWAGE_CPU_KERNELS_CONVOLUTION_H_

// Declares the algorithms of conv, conv_transpose and conv_weight_grad that convolution.cc selects
// from. (The gathered matmul, which is the default for conv and conv_transpose, is in
// convolution.cc.) Each algorithm has a function that returns the size of its scratch memory, and a
// function that runs it:
//
//   if (TakesByBatch<T>(g)) {
//     ConvByBatch(g, /*to_x=*/false, x, w, y, launch.workspace.data(), pool);
//   }
//
// If `to_x` is true, a function computes x from y (conv_transpose). Otherwise it computes y from x
// (conv). Scratch memory must be aligned to 64 bytes. A tap is an element of the kernel. The
// functions named Bf16 multiply pairs of bf16 elements (bf16_gemm.h), sum in f32 and round each
// result once.

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

// The ByBatch algorithms compute convolutions of small feature maps. The lines of a map of 4 x 4
// elements are too short for registers, and many of its taps read only padding. In these
// algorithms, the lanes of a register hold the same element of a map for several images. Each
// element of the result is the sum of one matmul for each tap that reads a source element, of the
// packed filters (rows, channels) and the packed source (channels, images). Taps that read padding
// take no time.

/// Returns whether the ByBatch algorithms support `g` and are fast for it: the maps are small,
/// there are enough images to fill a register, and the groups have enough channels and filters for
/// a matmul.
template <typename T>
bool TakesByBatch(const ConvGeometry& g);

template <typename T>
Bytes ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads);
/// Computes conv or conv_transpose. Each element of the result is one sum over (tap, channel), in
/// order.
template <typename T>
void ConvByBatch(const ConvGeometry& g, bool to_x, const T* from,
                 const T* filters, T* to, std::byte* scratch, ThreadPool& pool);
Bytes Bf16ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads);
/// Computes the same as ConvByBatch from bf16, with sums over (tap, pair of channels).
void Bf16ConvByBatch(const ConvGeometry& g, bool to_x, const uint16_t* from,
                     const uint16_t* filters, uint16_t* to, std::byte* scratch,
                     ThreadPool& pool);

template <typename T>
Bytes WeightGradByBatchScratch(const ConvGeometry& g, int threads);
/// Computes dw. Each element is one sum over (element of a map of dy, image), in order.
template <typename T>
void WeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                       std::byte* scratch, ThreadPool& pool);
Bytes Bf16WeightGradByBatchScratch(const ConvGeometry& g, int threads);
/// Computes the same as WeightGradByBatch from bf16, with sums over (element, pair of images).
void Bf16WeightGradByBatch(const ConvGeometry& g, const uint16_t* x,
                           const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                           ThreadPool& pool);

// The Depthwise algorithms compute convolutions whose groups have one channel and one filter. These
// convolutions have only a few multiply-adds per element and no matmul. A channel of an image is
// gathered into a Slab (conv_walks.h), and one loop over the slab computes all of its results.

inline bool IsDepthwise(const ConvGeometry& g) {
  return g.channels == 1 && g.filters == 1;
}

/// Returns the scratch size of Depthwise and DepthwiseWeightGrad for these walks.
template <typename T>
Bytes DepthwiseScratch(const Walks& walks, int threads);
/// Computes the elements of `to` (N, C, spatial) that are in `walks` from `source` (N, C, spatial)
/// and one filter per channel. Does not write other elements.
template <typename T>
void Depthwise(const ConvGeometry& g, const Walks& walks, const T* source,
               const T* filters, T* to, std::byte* scratch, ThreadPool& pool);
/// Computes dw. Each lane of a register sums over images in order, and the lanes are added at the
/// end. `walks` must be ForwardWalks(g).
template <typename T>
void DepthwiseWeightGrad(const ConvGeometry& g, const Walks& walks, const T* x,
                         const T* dy, T* dw, std::byte* scratch,
                         ThreadPool& pool);

// The DepthwiseByBatch algorithms compute depthwise convolutions of small and medium maps. The
// lanes of a register hold the same element of several images, so neither strides nor short lines
// slow them down. A task processes a few channels of one register of images at a time. It
// transposes them into a frame of zeros, adds the terms tap by tap, and transposes the sums back.

/// Returns whether IsDepthwise(g) is true, there are enough images to fill a register, and the maps
/// are so small that a few of them fit a cache for all lanes.
template <typename T>
bool TakesDepthwiseByBatch(const ConvGeometry& g);

/// Returns the scratch size of DepthwiseByBatch and DepthwiseWeightGradByBatch.
template <typename T>
Bytes DepthwiseByBatchScratch(const ConvGeometry& g, int threads);
/// Computes conv or conv_transpose. Each element of the result is a sum over taps in order.
template <typename T>
void DepthwiseByBatch(const ConvGeometry& g, bool to_x, const T* from,
                      const T* filters, T* to, std::byte* scratch,
                      ThreadPool& pool);
/// Computes dw. For each register of images, in order: each lane adds the products of its image
/// over the elements of dy, in order, then the lanes are added, and the result is added to the
/// element of dw.
template <typename T>
void DepthwiseWeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy,
                                T* dw, std::byte* scratch, ThreadPool& pool);

// WeightGrad and Bf16WeightGrad compute conv_weight_grad as a matmul,
//
//   dw^T (channels * taps, filters) = x gathered (channels * taps, elements) *
//                                     dy^T (elements, filters),
//
// but the left operand is not stored. The elements that a tap reads along a line are adjacent in a
// slab (conv_walks.h), so a row of the left operand is a pointer into a slab. The right operand is
// dy, which is transposed one band (conv_bands.h) at a time.

template <typename T>
Bytes WeightGradScratch(const ConvGeometry& g, int threads);
/// Computes dw. Each element is a sum over (image, element of dy), in order. The images are divided
/// into at most 16 ranges, depending on shapes. Each range has its own sum, and the sums are added
/// in order.
template <typename T>
void WeightGrad(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                std::byte* scratch, ThreadPool& pool);
Bytes Bf16WeightGradScratch(const ConvGeometry& g, int threads);
/// Computes the same as WeightGrad from bf16, with sums over pairs of elements along a line. If a
/// line has an odd number of elements, its last element is paired with zeros.
void Bf16WeightGrad(const ConvGeometry& g, const uint16_t* x,
                    const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                    ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONVOLUTION_H_
