#ifndef STOWAGE_CPU_KERNELS_CONV_BY_BATCH_H_
#define STOWAGE_CPU_KERNELS_CONV_BY_BATCH_H_

// Convolutions over maps of few elements, with the images of a batch as columns.
//
// Where a map has 4 x 4 elements, lines are too short for registers, and many taps
// meet nothing but padding. Here a register holds one element of a map for as many
// images as it has lanes. Every element of a result is the sum, over the taps that
// meet something there, of (rows, channels) filters times (channels, images) of the
// source, both of which lie in one piece once they have been brought into order. What
// meets padding costs nothing.
//
//   if (TakesByBatch<T>(g)) {
//     ConvByBatch(g, /*to_x=*/false, x, w, y, launch.workspace.data(), pool);
//   }

#include "base/bytes.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// Whether these take it: small maps, images that fill a register, and groups that are
/// worth a product of matrices.
template <typename T>
bool TakesByBatch(const ConvGeometry& g);

/// Bytes of scratch, aligned to 64, that ConvByBatch wants.
template <typename T>
Bytes ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads);

/// y from x, or with `to_x` x from y, as conv and conv_transpose define them. Every
/// element is a sum over taps, and of each over channels, in order.
template <typename T>
void ConvByBatch(const ConvGeometry& g, bool to_x, const T* from,
                 const T* filters, T* to, std::byte* scratch, ThreadPool& pool);

/// Bytes of scratch, aligned to 64, that WeightGradByBatch wants.
template <typename T>
Bytes WeightGradByBatchScratch(const ConvGeometry& g, int threads);

/// dw. Every element is a sum over dy's elements of a map, and of each over images, in
/// order.
template <typename T>
void WeightGradByBatch(const ConvGeometry& g, const T* x, const T* dy, T* dw,
                       std::byte* scratch, ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_CONV_BY_BATCH_H_
