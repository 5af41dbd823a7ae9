#ifndef STOWAGE_CPU_KERNELS_CONV_DEPTHWISE_H_
#define STOWAGE_CPU_KERNELS_CONV_DEPTHWISE_H_

// Convolutions whose groups have one channel and one filter: no matrix product,
// but a few multiply-adds for each element. A channel of an image is brought into
// a Slab (conv_walks.h), where what a tap meets lies in neighbouring places, and
// results are made over its whole length at once.

#include "base/bytes.h"
#include "cpu/kernels/conv_walks.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// Whether these take it.
inline bool IsDepthwise(const ConvGeometry& g) {
  return g.channels == 1 && g.filters == 1;
}

/// Bytes of scratch, aligned to 64, that the two below want for these walks.
template <typename T>
Bytes DepthwiseScratch(const Walks& walks, int threads);

/// to (N, C, elements of the walks) = source (N, C, ...) by filters, of which
/// there is one a channel. What the walks leave out of `to` is left as it is.
template <typename T>
void Depthwise(const ConvGeometry& g, const Walks& walks, const T* source,
               const T* filters, T* to, std::byte* scratch, ThreadPool& pool);

/// dw, where `walks` are ForwardWalks(g). Every element is a sum over images in
/// order.
template <typename T>
void DepthwiseWeightGrad(const ConvGeometry& g, const Walks& walks, const T* x,
                         const T* dy, T* dw, std::byte* scratch,
                         ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONV_DEPTHWISE_H_
