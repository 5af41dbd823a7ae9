#ifndef STOWAGE_CPU_KERNELS_CONVOLUTION_H_
#define STOWAGE_CPU_KERNELS_CONVOLUTION_H_

// The algorithms of conv, conv_transpose and conv_weight_grad besides the gathered matmul
// of convolution.cc. Each pair of functions reports its scratch and runs:
//
//   if (TakesByBatch<T>(g)) {
//     ConvByBatch(g, /*to_x=*/false, x, w, y, launch.workspace.data(), pool);
//   }
//
// `to_x` computes x from y (conv_transpose) instead of y from x (conv). Scratch is aligned
// to 64 bytes. The functions named Bf16 multiply pairs of bf16 elements (bf16_gemm.h), sum
// in f32 and round each result once.

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

// By batch, for small maps: a map of 4 x 4 elements has lines too short for registers, and
// many taps meet only padding. A register holds one element of a map for as many images as
// it has lanes. Every element of a result is the sum, over the taps that meet an element of
// the source, of filters (rows, channels) times the source (channels, images), both packed.
// Padding costs nothing.

/// True for small maps with enough images to fill a register and groups large enough for a
/// matmul.
template <typename T>
bool TakesByBatch(const ConvGeometry& g);

template <typename T>
Bytes ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads);
/// Every element is a sum over taps, each a sum over channels, in order.
template <typename T>
void ConvByBatch(const ConvGeometry& g, bool to_x, const T* from,
                 const T* filters, T* to, std::byte* scratch, ThreadPool& pool);
Bytes Bf16ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads);
/// The same over pairs of channels.
void Bf16ConvByBatch(const ConvGeometry& g, bool to_x, const uint16_t* from,
                     const uint16_t* filters, uint16_t* to, std::byte* scratch,
                     ThreadPool& pool);

template <typename T>
Bytes WeightGradByBatchScratch(const ConvGeometry& g, int threads);
/// dw. Every element is a sum over the elements of dy's map, each a sum over images, in
/// order.
template <typename T>
void WeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                       std::byte* scratch, ThreadPool& pool);
Bytes Bf16WeightGradByBatchScratch(const ConvGeometry& g, int threads);
/// The same over pairs of images.
void Bf16WeightGradByBatch(const ConvGeometry& g, const uint16_t* x,
                           const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                           ThreadPool& pool);

// Depthwise: groups of one channel and one filter, with a few multiply-adds per element and
// no matmul. A channel of an image is gathered into a Slab (conv_walks.h), and results are
// computed over its whole length at once.

inline bool IsDepthwise(const ConvGeometry& g) {
  return g.channels == 1 && g.filters == 1;
}

/// For both functions below, with these walks.
template <typename T>
Bytes DepthwiseScratch(const Walks& walks, int threads);
/// to (N, C, elements of the walks) = source (N, C, ...) by filters, one per channel.
/// Elements of `to` outside the walks are not written.
template <typename T>
void Depthwise(const ConvGeometry& g, const Walks& walks, const T* source,
               const T* filters, T* to, std::byte* scratch, ThreadPool& pool);
/// dw, where `walks` are ForwardWalks(g). Every element is a sum over images in order.
template <typename T>
void DepthwiseWeightGrad(const ConvGeometry& g, const Walks& walks, const T* x,
                         const T* dy, T* dw, std::byte* scratch,
                         ThreadPool& pool);

// Depthwise by batch, for small and medium maps: the lanes of a register hold the images of
// a batch, so strides and lines of any length cost nothing. A few channels of as many
// images as there are lanes are transposed into a frame of zeros, multiplied and added tap
// by tap, and transposed back.

/// True for IsDepthwise(g) with enough images to fill a register and maps of which a few
/// fit a cache with all lanes.
template <typename T>
bool TakesDepthwiseByBatch(const ConvGeometry& g);

/// For both functions below.
template <typename T>
Bytes DepthwiseByBatchScratch(const ConvGeometry& g, int threads);
/// Every element is a sum over taps in order.
template <typename T>
void DepthwiseByBatch(const ConvGeometry& g, bool to_x, const T* from,
                      const T* filters, T* to, std::byte* scratch,
                      ThreadPool& pool);
/// dw. Every element is a sum over lanes, of each lane over its images, each a sum over
/// dy's elements in order.
template <typename T>
void DepthwiseWeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy,
                                T* dw, std::byte* scratch, ThreadPool& pool);

// conv_weight_grad as a matmul,
//
//   dw^T (channels * taps, filters) = x gathered (channels * taps, elements) by
//                                     dy^T (elements, filters),
//
// without gathering: the elements that a tap meets along a line are neighbours in a slab
// (conv_walks.h), so a row of the left operand is a pointer into a slab. The right operand
// is dy, transposed a band of elements at a time.

template <typename T>
Bytes WeightGradScratch(const ConvGeometry& g, int threads);
/// dw. Every element is a sum over images and dy's elements in order, split by images into
/// at most 16 sums, which are added in order.
template <typename T>
void WeightGrad(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                std::byte* scratch, ThreadPool& pool);
Bytes Bf16WeightGradScratch(const ConvGeometry& g, int threads);
/// The same over pairs of elements along a line; in lines of an odd number of elements, the
/// last is paired with zeros.
void Bf16WeightGrad(const ConvGeometry& g, const uint16_t* x,
                    const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                    ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONVOLUTION_H_
