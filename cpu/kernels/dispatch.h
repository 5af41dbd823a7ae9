#ifndef STOWAGE_CPU_KERNELS_DISPATCH_H_
#define STOWAGE_CPU_KERNELS_DISPATCH_H_

// Handles element types. Provides dispatch from a run-time DType to a C++ type, functions for
// CpuKernel::supports, and conversions between 16-bit floats and f32.
//
//   return OnFloat(x.dtype(), [&](auto zero) {
//     using T = decltype(zero);
//     ...
//   });
//
//   Widen(DType::kBF16, n, x, /*stride=*/1, wide);
//   Narrow(DType::kBF16, n, wide, y);

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"

namespace stowage::cpu {

inline bool IsComputedFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64;
}
inline bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

/// Returns the type in which elements of `dtype` are computed, which is f32 for f16 and bf16.
inline DType ComputedIn(DType dtype) {
  return IsHalf(dtype) ? DType::kF32 : dtype;
}

// These functions implement CpuKernel::supports. SupportsAll accepts all operands. SupportsNumbers
// accepts all types of operand 0 except f16 and bf16.
inline bool SupportsAll(const OpArgs&) { return true; }
inline bool SupportsNumbers(const OpArgs& args) {
  return !IsHalf(args.type(0).dtype);
}

/// Returns f(float()) or f(double()). Requires IsComputedFloat(dtype).
template <typename F>
auto OnFloat(DType dtype, F&& f) {
  STOWAGE_CHECK(IsComputedFloat(dtype));
  if (dtype == DType::kF32) return f(float{});
  return f(double{});
}

/// Returns f(T()), where T is the C++ type of `dtype`, which is uint8_t for bool. `dtype` must not
/// be f16 or bf16.
template <typename F>
auto OnNumber(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU8:
    case DType::kBool:
      return f(uint8_t{});
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  STOWAGE_CHECK(false);
}

/// Returns f(T()), where T is the unsigned integer type that has the size of `dtype`. Serves
/// kernels that move elements without computing.
template <typename F>
auto OnWidth(DType dtype, F&& f) {
  switch (SizeOf(dtype)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
  }
  STOWAGE_CHECK(false);
}

/// Returns f(int32_t()) or f(int64_t()). Requires IsIndex(dtype).
template <typename F>
auto OnIndex(DType dtype, F&& f) {
  STOWAGE_CHECK(IsIndex(dtype));
  if (dtype == DType::kI32) return f(int32_t{});
  return f(int64_t{});
}

// Widen and Narrow convert ranges of f16 and bf16 elements to f32, in which kernels compute, and
// back.
//
//   Widen(DType::kBF16, n, x, /*stride=*/1, wide);
//   Narrow(DType::kBF16, n, wide, y);

/// Converts n elements of type `half`, which is f16 or bf16, to f32. The elements start at `x`
/// and are `stride` elements apart. The conversion is exact.
void Widen(DType half, int64_t n, const std::byte* x, int64_t stride, float* y);

/// Converts n floats to contiguous elements of type `half`, which is f16 or bf16. Rounds to
/// nearest, ties to even.
void Narrow(DType half, int64_t n, const float* x, std::byte* y);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_DISPATCH_H_
