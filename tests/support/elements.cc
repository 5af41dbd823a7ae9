#include "tests/support/elements.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/result.h"
#include "math/small_floats.h"

namespace stowage {
namespace {

constexpr std::byte kPoison{0xFF};
constexpr std::byte kGuard{0xA5};
constexpr size_t kGuardBytes = 256;

template <typename T>
void Put(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(T));
}
template <typename T>
T Get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

}  // namespace

void EncodeElement(DType dtype, double x, std::byte* to) {
  switch (dtype) {
    case DType::kF32:
      return Put(static_cast<float>(x), to);
    case DType::kF64:
      return Put(x, to);
    case DType::kF16:
      return Put(math::FloatToHalf(math::RoundToOddFloat(x)), to);
    case DType::kBF16:
      return Put(math::FloatToBFloat16(math::RoundToOddFloat(x)), to);
    case DType::kI16:
      return Put(static_cast<int16_t>(x), to);
    case DType::kI32:
      return Put(static_cast<int32_t>(x), to);
    case DType::kI64:
      return Put(static_cast<int64_t>(x), to);
    case DType::kU8:
      return Put(static_cast<uint8_t>(x), to);
    case DType::kBool:
      return Put(static_cast<uint8_t>(x != 0), to);
  }
  STOWAGE_CHECK(false);
}

double DecodeElement(DType dtype, const std::byte* from) {
  switch (dtype) {
    case DType::kF32:
      return Get<float>(from);
    case DType::kF64:
      return Get<double>(from);
    case DType::kF16:
      return math::HalfToFloat(Get<uint16_t>(from));
    case DType::kBF16:
      return math::BFloat16ToFloat(Get<uint16_t>(from));
    case DType::kI16:
      return Get<int16_t>(from);
    case DType::kI32:
      return Get<int32_t>(from);
    case DType::kI64:
      return static_cast<double>(Get<int64_t>(from));
    case DType::kU8:
    case DType::kBool:
      return Get<uint8_t>(from);
  }
  STOWAGE_CHECK(false);
}

Bytes ElementOffset(int64_t index, const TensorType& type,
                    const Layout& layout) {
  int64_t offset = 0;
  for (int axis = type.shape.rank() - 1; axis >= 0; --axis) {
    offset += index % type.shape[axis] * layout.strides[axis];
    index /= type.shape[axis];
  }
  return layout.byte_offset + offset * SizeOf(type.dtype);
}

double LargestError(const std::vector<double>& got,
                    const std::vector<double>& want) {
  double scale = 1;
  for (const double x : want) {
    if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
  }
  double error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) {
      continue;
    }
    const double difference = std::abs(got[i] - want[i]) / scale;
    if (std::isnan(difference)) return difference;
    error = std::max(error, difference);
  }
  return error;
}

GuardedBuffer::GuardedBuffer(Bytes bytes, size_t alignment, size_t shift)
    : size_(static_cast<size_t>(bytes)) {
  storage_.assign(alignment + shift + size_ + 2 * kGuardBytes, kGuard);
  const auto first = reinterpret_cast<uintptr_t>(storage_.data()) + kGuardBytes;
  start_ = kGuardBytes + (alignment - first % alignment) % alignment + shift;
  std::fill_n(data(), size_, kPoison);
}

bool GuardedBuffer::intact() const {
  const auto guards = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte b) { return b == kGuard; });
  };
  const std::byte* first = storage_.data();
  return guards(first, first + start_) &&
         guards(first + start_ + size_, first + storage_.size());
}

}  // namespace stowage
