#ifndef STOWAGE_IR_DTYPE_H_
#define STOWAGE_IR_DTYPE_H_

// Element types. f32 and f64 compute everywhere; f16 and bf16 are stored, cast
// and sized, and computed with where a backend says so; i32 and i64 index; i16
// is what the optimizer keeps beside bf16 weights (math/split_master.h); u8 and
// bool carry masks and bytes.
//
//   SizeOf(DType::kBF16) == 2;  DTypeName(DType::kF32) == "f32"

#include <array>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

enum class DType : uint8_t {
  kF32,
  kF64,
  kF16,
  kBF16,
  kI16,
  kI32,
  kI64,
  kU8,
  kBool
};

inline constexpr std::array kAllDTypes = {
    DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI16,
    DType::kI32, DType::kI64, DType::kU8,  DType::kBool};

/// Bytes of one element.
constexpr Bytes SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return 2;
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

/// f32, f64, f16 or bf16.
constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

/// i32 or i64: what may index.
constexpr bool IsIndex(DType dtype) {
  return dtype == DType::kI32 || dtype == DType::kI64;
}

/// "f32", "bf16", "bool", ...
std::string_view DTypeName(DType dtype);

/// The inverse of DTypeName. Error kInvalidArgument for any other text.
Result<DType> ParseDType(std::string_view name);

/// The dtype whose elements are C++ type T: DTypeOf<float>() == DType::kF32.
template <typename T>
constexpr DType DTypeOf();
template <>
constexpr DType DTypeOf<float>() {
  return DType::kF32;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kF64;
}
template <>
constexpr DType DTypeOf<int16_t>() {
  return DType::kI16;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kI64;
}
template <>
constexpr DType DTypeOf<uint8_t>() {
  return DType::kU8;
}
template <>
constexpr DType DTypeOf<bool>() {
  return DType::kBool;
}

}  // namespace stowage

#endif  // STOWAGE_IR_DTYPE_H_
