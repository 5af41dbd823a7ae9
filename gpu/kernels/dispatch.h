#ifndef STOWAGE_GPU_KERNELS_DISPATCH_H_
#define STOWAGE_GPU_KERNELS_DISPATCH_H_

// From element types at run time to element types in C++, and the rules for
// GpuKernel::supports that go with them. Host code.
//
//   OnFloat(x.dtype(), [&](auto zero) {
//     using T = decltype(zero);
//     ...
//   });

#include <cstdint>

#include "base/result.h"
#include "gpu/simt.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"

namespace stowage::gpu {

/// What kernels compute with: f32, f16 or bf16.
inline bool IsComputedFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// Rules for GpuKernel::supports, by operand 0.
inline bool SupportsAll(const OpArgs&) { return true; }
inline bool SupportsNumbers(const OpArgs& args) {
  return args.type(0).dtype != DType::kF64;
}

/// f(float()), f(F16()) or f(BF16()). Precondition: IsComputedFloat(dtype).
template <typename F>
auto OnFloat(DType dtype, F&& f) {
  STOWAGE_CHECK(IsComputedFloat(dtype));
  if (dtype == DType::kF32) return f(float{});
  if (dtype == DType::kF16) return f(F16{});
  return f(BF16{});
}

/// f of a zero of the element type, of any but f64; bool as uint8_t.
template <typename F>
auto OnNumber(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kI16:
      return f(int16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU8:
    case DType::kBool:
      return f(uint8_t{});
    default:
      return OnFloat(dtype, f);
  }
}

/// f of an unsigned integer as wide as the element type, for moving elements.
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

/// f(int32_t()) or f(int64_t()). Precondition: IsIndex(dtype).
template <typename F>
auto OnIndex(DType dtype, F&& f) {
  STOWAGE_CHECK(IsIndex(dtype));
  if (dtype == DType::kI32) return f(int32_t{});
  return f(int64_t{});
}

/// Whether LoadPack and StorePack may start at `address`.
inline bool IsPackAligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_DISPATCH_H_
