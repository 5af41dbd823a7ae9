#ifndef STOWAGE_CPU_KERNELS_CONV_DEPTHWISE_BY_BATCH_H_
#define STOWAGE_CPU_KERNELS_CONV_DEPTHWISE_BY_BATCH_H_

// Convolutions whose groups have one channel and one filter, over small and middling
// maps, with the images of a batch in the lanes of registers. An element of a map is
// one register then, so that strides and lines of any length cost nothing: a few
// channels of as many images as there are lanes are transposed into a frame of zeros,
// multiplied and added tap by tap, and transposed back.
//
//   if (TakesDepthwiseByBatch<T>(g)) {
//     DepthwiseByBatch(g, /*to_x=*/false, x, w, y, launch.workspace.data(), pool);
//   }

#include "base/bytes.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// Whether these take it: IsDepthwise(g), images that fill a register, and maps of which
/// a few fit a cache with all these lanes.
template <typename T>
bool TakesDepthwiseByBatch(const ConvGeometry& g);

/// Bytes of scratch, aligned to 64, that both functions below want.
template <typename T>
Bytes DepthwiseByBatchScratch(const ConvGeometry& g, int threads);

/// y from x, or with `to_x` x from y, as conv and conv_transpose define them. Every
/// element is a sum over taps in order.
template <typename T>
void DepthwiseByBatch(const ConvGeometry& g, bool to_x, const T* from,
                      const T* filters, T* to, std::byte* scratch,
                      ThreadPool& pool);

/// dw. Every element is a sum in each lane over the images that come into it, and of
/// each over dy's elements in order; then over the lanes.
template <typename T>
void DepthwiseWeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy,
                                T* dw, std::byte* scratch, ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONV_DEPTHWISE_BY_BATCH_H_
