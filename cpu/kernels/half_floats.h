#ifndef STOWAGE_CPU_KERNELS_HALF_FLOATS_H_
#define STOWAGE_CPU_KERNELS_HALF_FLOATS_H_

// Runs of f16 and bf16 elements to f32, in which they are computed with, and back.
//
//   Widen(DType::kBF16, n, x, /*stride=*/1, wide);
//   Narrow(DType::kBF16, n, wide, y);

#include <cstddef>
#include <cstdint>

#include "ir/tensor_type.h"

namespace stowage::cpu {

/// The n elements of type `half`, f16 or bf16, that lie `stride` elements apart
/// from `x` on; exact.
void Widen(DType half, int64_t n, const std::byte* x, int64_t stride, float* y);

/// n contiguous elements of type `half`, f16 or bf16: the nearest, ties to even.
void Narrow(DType half, int64_t n, const float* x, std::byte* y);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_HALF_FLOATS_H_
