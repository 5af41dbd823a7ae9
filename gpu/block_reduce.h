#ifndef STOWAGE_GPU_BLOCK_REDUCE_H_
#define STOWAGE_GPU_BLOCK_REDUCE_H_

// Sums and maxima over a warp or a block, in an order that depends only on the size of the
// block: the same values give the same bits. Every thread gets the result.
//
//   STOWAGE_SHARED(float, scratch, kWarpSize);
//   const float total = BlockSum(mine, &scratch[0]);
//
// All threads of the warp or block must call them; none may have returned. Scratch may be
// reused at once.

#include "gpu/simt.h"

namespace stowage::gpu {

/// The sum over the 32 lanes.
template <typename T>
STOWAGE_DEVICE T WarpSum(T v) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) v += ShuffleXor(v, mask);
  return v;
}

/// The larger; NaN if either is.
template <typename T>
STOWAGE_DEVICE T Larger(T a, T b) {
  return a != a || a > b ? a : b;
}

/// The largest over the 32 lanes; NaN if any is.
template <typename T>
STOWAGE_DEVICE T WarpMax(T v) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    v = Larger(v, ShuffleXor(v, mask));
  }
  return v;
}

/// The sum over the block. `scratch`: kWarpSize elements in shared memory.
template <typename T>
STOWAGE_DEVICE T BlockSum(T v, T* scratch) {
  v = WarpSum(v);
  if (Lane() == 0) scratch[Warp()] = v;
  SyncThreads();
  v = WarpSum(Lane() < BlockSize() / kWarpSize ? scratch[Lane()] : T(0));
  SyncThreads();
  return v;
}

/// The largest over the block; NaN if any is. `scratch` as above.
template <typename T>
STOWAGE_DEVICE T BlockMax(T v, T* scratch) {
  v = WarpMax(v);
  if (Lane() == 0) scratch[Warp()] = v;
  SyncThreads();
  // Lanes beyond the last warp repeat element 0, which does not change the maximum.
  v = WarpMax(scratch[Lane() < BlockSize() / kWarpSize ? Lane() : 0]);
  SyncThreads();
  return v;
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_BLOCK_REDUCE_H_
