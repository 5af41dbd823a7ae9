#ifndef STOWAGE_CPU_KERNELS_MOVEMENT_H_
#define STOWAGE_CPU_KERNELS_MOVEMENT_H_

// Copying strided elements, of any width, in parallel.

#include <cstddef>

#include "base/bytes.h"
#include "cpu/thread_pool.h"
#include "ir/tensor_type.h"

namespace stowage::cpu {

/// Copies the elements of `shape`, each `width` bytes (1, 2, 4 or 8), from and
/// to any strides; no element of `to` may be one of `from`.
void CopyStrided(const Shape& shape, Bytes width, const std::byte* from,
                 const Strides& from_strides, std::byte* to,
                 const Strides& to_strides, ThreadPool& pool);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_MOVEMENT_H_
