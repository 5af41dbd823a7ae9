#ifndef STOWAGE_GPU_KERNELS_MATMUL_H_
#define STOWAGE_GPU_KERNELS_MATMUL_H_

// How much scratch a matrix product gets. The library that computes it chooses
// its algorithm under this cap when a program is bound; the cap is fixed when it
// is planned, where there may be no device, so it is a function of the result's
// size alone. 32 MiB is what the library recommends for its fastest algorithms
// on large products. Small ones are those that it splits along k, into partial
// results in f32 that are added afterwards: room for eight of them is enough
// there, and keeps workspaces in proportion to small arenas.
//
//   MatMulWorkspace(64 * 64) == 131072

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "gpu/queue.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// The cap in bytes, a multiple of 256, for all results of one call together.
constexpr Bytes MatMulWorkspace(int64_t result_elements) {
  constexpr Bytes kMax = Bytes{32} << 20;
  constexpr int64_t kSplits = 8;
  constexpr Bytes kF32 = 4;
  const int64_t elements = std::min(result_elements, kMax);
  return std::min(kMax, AlignUp(kSplits * kF32 * elements, 256));
}

/// Enqueues the product of a launch's first two operands, by the attributes
/// transpose_a and transpose_b, into its result 0.
void EnqueueProduct(const Launch& launch, Queue& queue);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_MATMUL_H_
