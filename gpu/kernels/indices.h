#ifndef STOWAGE_GPU_KERNELS_INDICES_H_
#define STOWAGE_GPU_KERNELS_INDICES_H_

// An operand of indices, i32 or i64, as kernels read it.

#include <cstdint>

#include "gpu/simt.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

struct Indices {
  explicit Indices(const TensorView& view)
      : data(view.data), bytes(static_cast<int>(SizeOf(view.dtype()))) {}
  STOWAGE_DEVICE int64_t At(int64_t i) const {
    return bytes == 8 ? static_cast<const int64_t*>(data)[i]
                      : static_cast<const int32_t*>(data)[i];
  }
  const void* data;
  int bytes;  // of one: 8 for i64, 4 for i32
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_INDICES_H_
