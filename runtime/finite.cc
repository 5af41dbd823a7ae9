#include "runtime/finite.h"

#include <cstring>

#include "base/strings.h"
#include "math/small_floats.h"

namespace stowage {
namespace {

// A float is finite unless all bits of its exponent are set.
template <typename Bits>
std::optional<int64_t> Find(std::span<const std::byte> data, Bits exponent) {
  const size_t size = data.size() / sizeof(Bits);
  for (size_t i = 0; i < size; ++i) {
    Bits bits;
    std::memcpy(&bits, data.data() + i * sizeof(Bits), sizeof(Bits));
    if ((bits & exponent) == exponent) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

template <typename T>
T At(std::span<const std::byte> data, int64_t index) {
  T value;
  std::memcpy(&value, data.data() + static_cast<size_t>(index) * sizeof(T),
              sizeof(T));
  return value;
}

}  // namespace

std::optional<int64_t> FindNonFinite(DType dtype,
                                     std::span<const std::byte> data) {
  switch (dtype) {
    case DType::kF32:
      return Find<uint32_t>(data, 0x7F800000);
    case DType::kF64:
      return Find<uint64_t>(data, 0x7FF0000000000000);
    case DType::kF16:
      return Find<uint16_t>(data, 0x7C00);
    case DType::kBF16:
      return Find<uint16_t>(data, 0x7F80);
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kBool:
      break;
  }
  return std::nullopt;
}

std::string FloatText(DType dtype, std::span<const std::byte> data,
                      int64_t index) {
  switch (dtype) {
    case DType::kF64:
      return StrCat(At<double>(data, index));
    case DType::kF16:
      return StrCat(math::HalfToFloat(At<uint16_t>(data, index)));
    case DType::kBF16:
      return StrCat(math::BFloat16ToFloat(At<uint16_t>(data, index)));
    default:
      return StrCat(At<float>(data, index));
  }
}

}  // namespace stowage
