#ifndef STOWAGE_CPU_KERNELS_BF16_CONV_BY_BATCH_H_
#define STOWAGE_CPU_KERNELS_BF16_CONV_BY_BATCH_H_

// The convolutions of conv_by_batch.h on bf16 by pairs (bf16_gemm.h): pairs of channels, or
// in the gradient of the filters pairs of images. Sums are f32, and are rounded once.
//
//   if (TakesByBatch<float>(g)) {
//     Bf16ConvByBatch(g, /*to_x=*/false, x, w, y, launch.workspace.data(), pool);
//   }

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/thread_pool.h"
#include "ir/windows.h"

namespace stowage::cpu {

/// Bytes of scratch, aligned to 64, that Bf16ConvByBatch wants.
Bytes Bf16ConvByBatchScratch(const ConvGeometry& g, bool to_x, int threads);

/// y from x, or with `to_x` x from y. Every element is a sum over taps, and of each over
/// pairs of channels, in order.
void Bf16ConvByBatch(const ConvGeometry& g, bool to_x, const uint16_t* from,
                     const uint16_t* filters, uint16_t* to, std::byte* scratch,
                     ThreadPool& pool);

/// Bytes of scratch, aligned to 64, that Bf16WeightGradByBatch wants.
Bytes Bf16WeightGradByBatchScratch(const ConvGeometry& g, int threads);

/// dw. Every element is a sum over dy's elements of a map, and of each over pairs of
/// images, in order.
void Bf16WeightGradByBatch(const ConvGeometry& g, const uint16_t* x,
                           const uint16_t* dy, uint16_t* dw, std::byte* scratch,
                           ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_BF16_CONV_BY_BATCH_H_
