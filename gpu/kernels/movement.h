#ifndef STOWAGE_GPU_KERNELS_MOVEMENT_H_
#define STOWAGE_GPU_KERNELS_MOVEMENT_H_

// Copying strided elements of any type.

#include "gpu/queue.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// Enqueues y = x, of one shape, one element type and any strides; y may be x
/// where both are contiguous, else they share no bytes. `name` is a literal, for
/// errors and profiles.
void CopyStrided(const char* name, Queue& queue, const TensorView& y,
                 const TensorView& x);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_MOVEMENT_H_
