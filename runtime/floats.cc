#include "runtime/floats.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "math/small_floats.h"

namespace stowage {

namespace {

// By way of a few thousand elements of T at a time.
template <typename T, typename Convert>
Status WriteAs(Runner& runner, std::string_view name, DType dtype,
               int64_t first, std::span<const float> numbers, Convert convert) {
  std::array<T, 4096> part;
  while (!numbers.empty()) {
    const size_t count = std::min(numbers.size(), part.size());
    std::ranges::transform(numbers.first(count), part.begin(), convert);
    STOWAGE_RETURN_IF_ERROR(
        runner.WritePart(name, dtype, first * SizeOf(dtype),
                         std::as_bytes(std::span(part).first(count))));
    first += static_cast<int64_t>(count);
    numbers = numbers.subspan(count);
  }
  return {};
}

// By way of elements of T.
template <typename T, typename Convert>
Result<std::vector<float>> ReadAs(const Runner& runner, std::string_view name,
                                  const TensorType& type, Convert convert) {
  std::vector<T> elements(static_cast<size_t>(type.shape.num_elements()));
  STOWAGE_RETURN_IF_ERROR(runner.ReadBytes(
      name, type.dtype, std::as_writable_bytes(std::span(elements))));
  std::vector<float> numbers(elements.size());
  std::ranges::transform(elements, numbers.begin(), convert);
  return numbers;
}

// Of a value that is not there, one of f32, which is an error later.
TensorType TypeOf(const Runner& runner, std::string_view name) {
  const std::optional<ValueId> id = runner.graph().Find(name);
  return id ? runner.graph().value(*id).type : TensorType{DType::kF32, {}};
}

Error NoFloats(std::string_view name, DType dtype) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[session] ", Quoted(name), " is of ", DTypeName(dtype),
                 ", no type of floats")};
}

}  // namespace

Status WriteFloats(Runner& runner, std::string_view name, int64_t first,
                   std::span<const float> numbers) {
  const DType dtype = TypeOf(runner, name).dtype;
  switch (dtype) {
    case DType::kF32:
      return runner.WritePart(name, dtype, first * SizeOf(dtype),
                              std::as_bytes(numbers));
    case DType::kF64:
      return WriteAs<double>(runner, name, dtype, first, numbers,
                             [](float x) { return double{x}; });
    case DType::kF16:
      return WriteAs<uint16_t>(runner, name, dtype, first, numbers,
                               math::FloatToHalf);
    case DType::kBF16:
      return WriteAs<uint16_t>(runner, name, dtype, first, numbers,
                               math::FloatToBFloat16);
    default:
      return NoFloats(name, dtype);
  }
}

Result<std::vector<float>> ReadFloats(const Runner& runner,
                                      std::string_view name) {
  const TensorType type = TypeOf(runner, name);
  switch (type.dtype) {
    case DType::kF32:
      return ReadAs<float>(runner, name, type, std::identity());
    case DType::kF64:
      return ReadAs<double>(runner, name, type,
                            [](double x) { return static_cast<float>(x); });
    case DType::kF16:
      return ReadAs<uint16_t>(runner, name, type, math::HalfToFloat);
    case DType::kBF16:
      return ReadAs<uint16_t>(runner, name, type, math::BFloat16ToFloat);
    default:
      return NoFloats(name, type.dtype);
  }
}

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
