#ifndef STOWAGE_CPU_KERNELS_DISPATCH_H_
#define STOWAGE_CPU_KERNELS_DISPATCH_H_

// From element types at run time to element types in C++, and the rules for
// CpuKernel::supports that go with them.
//
//   return OnFloat(x.dtype(), [&](auto zero) {
//     using T = decltype(zero);
//     ...
//   });

#include <cstdint>

#include "base/check.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"

namespace stowage::cpu {

inline bool IsComputedFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64;
}
inline bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

/// The type that elements of `dtype` are computed in: f32 for f16 and bf16.
inline DType ComputedIn(DType dtype) {
  return IsHalf(dtype) ? DType::kF32 : dtype;
}

// Rules for CpuKernel::supports, by operand 0.
inline bool SupportsAll(const OpArgs&) { return true; }
inline bool SupportsNumbers(const OpArgs& args) {
  return !IsHalf(args.type(0).dtype);
}

/// f(float()) or f(double()). Precondition: IsComputedFloat(dtype).
template <typename F>
auto OnFloat(DType dtype, F&& f) {
  STOWAGE_CHECK(IsComputedFloat(dtype));
  if (dtype == DType::kF32) return f(float{});
  return f(double{});
}

/// f of a zero of the element type, of any but f16 and bf16; bool as uint8_t.
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

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_DISPATCH_H_
