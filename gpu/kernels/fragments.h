#ifndef STOWAGE_GPU_KERNELS_FRAGMENTS_H_
#define STOWAGE_GPU_KERNELS_FRAGMENTS_H_

// Provides the layout in shared memory of tiles of 16-bit elements, which matrix loads read, and
// tensor-core multiply-adds for each element type.
//
// A tile has rows of kDepth elements, which are divided into kDepth / 8 chunks of 16 bytes.
// Swizzled permutes the chunks of each row, so that the eight chunks that a matrix load reads at a
// time are in different banks:
//
//   LoadMatrix4(a, tile + Swizzled<32>(row, chunk));
//   MultiplyAdd<BF16>(sum, a, b);

#include <cstdint>

#include "gpu/simt.h"

namespace stowage::gpu {

/// Returns the offset of chunk `chunk` of row `row` in a tile, in elements.
template <int kDepth>
STOWAGE_DEVICE int Swizzled(int row, int chunk) {
  static_assert(kDepth == 32 || kDepth == 64 || kDepth == 128);
  // 128 bytes span all banks. A row is 64, 128 or 256 bytes.
  const int turn = kDepth == 32 ? row / 2 % 4 : row % 8;
  return row * kDepth + (chunk ^ turn) * 8;
}

/// Rounds both numbers to T and packs them, with `low` in bits 0-15.
template <typename T>
STOWAGE_DEVICE uint32_t PackTwo(float low, float high);
template <>
STOWAGE_DEVICE uint32_t PackTwo<BF16>(float low, float high) {
  return PackBF16(low, high);
}
template <>
STOWAGE_DEVICE uint32_t PackTwo<F16>(float low, float high) {
  return uint32_t{FromFloat<F16>(low).bits} |
         uint32_t{FromFloat<F16>(high).bits} << 16;
}

/// Computes d += a b with fragments of T (gpu/simt.h). All lanes of a warp must call this.
template <typename T>
STOWAGE_DEVICE void MultiplyAdd(float d[4], const uint32_t a[4],
                                const uint32_t b[2]);
template <>
STOWAGE_DEVICE void MultiplyAdd<BF16>(float d[4], const uint32_t a[4],
                                      const uint32_t b[2]) {
  MultiplyAddBF16(d, a, b);
}
template <>
STOWAGE_DEVICE void MultiplyAdd<F16>(float d[4], const uint32_t a[4],
                                     const uint32_t b[2]) {
  MultiplyAddF16(d, a, b);
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_FRAGMENTS_H_
