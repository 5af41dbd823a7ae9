#ifndef STOWAGE_GPU_KERNELS_DISPATCH_H_
#define STOWAGE_GPU_KERNELS_DISPATCH_H_

// Handles element types. Host code calls a function with the C++ type of a run-time DType, and uses
// the functions for GpuKernel::supports. Device code reads indices, and converts elements to the
// type in which they are accumulated.
//
//   OnFloat(x.dtype(), [&](auto zero) {
//     using T = decltype(zero);
//     ...
//   });

#include <cstdint>
#include <type_traits>

#include "base/result.h"
#include "gpu/simt.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

/// Returns whether `dtype` is f32, f16 or bf16.
inline bool IsComputedFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// These functions implement GpuKernel::supports. SupportsAll accepts all operands. SupportsNumbers
// accepts all types of operand 0 except f64.
inline bool SupportsAll(const OpArgs&) { return true; }
inline bool SupportsNumbers(const OpArgs& args) {
  return args.type(0).dtype != DType::kF64;
}

/// Returns `f(float())`, `f(F16())` or `f(BF16())`. Requires `IsComputedFloat(dtype)`.
template <typename F>
auto OnFloat(DType dtype, F&& f) {
  STOWAGE_CHECK(IsComputedFloat(dtype));
  if (dtype == DType::kF32) return f(float{});
  if (dtype == DType::kF16) return f(F16{});
  return f(BF16{});
}

/// Returns f(T()), where T is the C++ type of `dtype`, which is uint8_t for bool. `dtype` must not
/// be f64.
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

/// Returns f(T()), where T is the unsigned integer type that has the size of `dtype`. Serves
/// kernels that copy elements without computing.
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

/// Returns `f(int32_t())` or `f(int64_t())`. Requires `IsIndex(dtype)`.
template <typename F>
auto OnIndex(DType dtype, F&& f) {
  STOWAGE_CHECK(IsIndex(dtype));
  if (dtype == DType::kI32) return f(int32_t{});
  return f(int64_t{});
}

/// Returns whether `address` is aligned as LoadPack and StorePack require.
inline bool IsPackAligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

// An operand that consists of indices, for device code. The indices are i32 or i64.

struct Indices {
  explicit Indices(const TensorView& view)
      : data(view.data), bytes(static_cast<int>(SizeOf(view.dtype()))) {}
  STOWAGE_DEVICE int64_t At(int64_t i) const {
    return bytes == 8 ? static_cast<const int64_t*>(data)[i]
                      : static_cast<const int32_t*>(data)[i];
  }
  const void* data;
  int bytes;  // per index: 8 for i64, 4 for i32
};

/// The type in which numbers of T are accumulated. It is float for floats. For integers, it is a
/// 64-bit integer, which wraps around.
template <typename T>
using Total = std::conditional_t<std::is_integral_v<T>, uint64_t, float>;

template <typename T>
STOWAGE_DEVICE Total<T> Widen(T x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<uint64_t>(x);
  } else {
    return ToFloat(x);
  }
}
template <typename T>
STOWAGE_DEVICE T Narrow(Total<T> x) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x);
  } else {
    return FromFloat<T>(x);
  }
}
template <typename T>
STOWAGE_DEVICE T AddTotal(T x, Total<T> more) {
  return Narrow<T>(Widen(x) + more);
}

/// The index of a branch: an i32, i64 or bool scalar in device memory that selects one of `bodies`
/// bodies.
struct BodyIndex {
  const std::byte* data;
  DType dtype;
  int64_t bodies;
  FaultSlot fault;
};

/// Returns the index of the selected body, which is 1 for true. If it is out of range, reports a
/// fault of the launch and returns `bodies`. Must be called by one thread only.
STOWAGE_DEVICE uint32_t ChosenBody(const BodyIndex& index) {
  int64_t body = 0;
  if (index.dtype == DType::kI64) {
    body = *reinterpret_cast<const int64_t*>(index.data);
  } else if (index.dtype == DType::kI32) {
    body = *reinterpret_cast<const int32_t*>(index.data);
  } else {
    body = *reinterpret_cast<const uint8_t*>(index.data) != 0 ? 1 : 0;
  }
  if (body < 0 || body >= index.bodies) {
    ReportFault(index.fault);
    body = index.bodies;
  }
  return static_cast<uint32_t>(body);
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_DISPATCH_H_
