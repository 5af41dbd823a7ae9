#include "formats/array.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/strings.h"
#include "math/small_floats.h"

namespace stowage {
namespace {

template <typename T>
T ElementAt(const Array& array, int64_t i) {
  T value;
  std::memcpy(&value, array.bytes.data() + static_cast<size_t>(i) * sizeof(T),
              sizeof(T));
  return value;
}

// Converts to a double, or to an int64_t: truncated, saturated, 0 for NaN.
template <typename To, typename From>
To Converted(From number) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (std::isnan(number)) return 0;
    if (number >= static_cast<From>(0x1p63)) {
      return std::numeric_limits<To>::max();
    }
    if (number < static_cast<From>(-0x1p63)) {
      return std::numeric_limits<To>::min();
    }
  }
  return static_cast<To>(number);
}

// Element i as a To.
template <typename To>
To NumberAt(const Array& array, int64_t i) {
  switch (array.type.dtype) {
    case DType::kF32:
      return Converted<To>(ElementAt<float>(array, i));
    case DType::kF64:
      return Converted<To>(ElementAt<double>(array, i));
    case DType::kF16:
      return Converted<To>(math::HalfToFloat(ElementAt<uint16_t>(array, i)));
    case DType::kBF16:
      return Converted<To>(
          math::BFloat16ToFloat(ElementAt<uint16_t>(array, i)));
    case DType::kI16:
      return Converted<To>(ElementAt<int16_t>(array, i));
    case DType::kI32:
      return Converted<To>(ElementAt<int32_t>(array, i));
    case DType::kI64:
      return Converted<To>(ElementAt<int64_t>(array, i));
    case DType::kU8:
      return Converted<To>(ElementAt<uint8_t>(array, i));
    case DType::kBool:
      return Converted<To>(ElementAt<uint8_t>(array, i) != 0);
  }
  return To{};
}

template <typename To>
std::vector<To> NumbersOf(const Array& array) {
  const int64_t count = array.type.shape.num_elements();
  std::vector<To> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    numbers[static_cast<size_t>(i)] = NumberAt<To>(array, i);
  }
  return numbers;
}

template <typename T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename From>
Array ArrayOfNumbers(DType dtype, const Shape& shape,
                     const std::vector<From>& numbers) {
  Array array{{dtype, shape}, {}};
  array.bytes.reserve(static_cast<size_t>(array.type.bytes()));
  for (const From number : numbers) {
    switch (dtype) {
      case DType::kF32:
        Append(static_cast<float>(number), &array.bytes);
        break;
      case DType::kF64:
        Append(static_cast<double>(number), &array.bytes);
        break;
      case DType::kF16:
        Append(math::FloatToHalf(static_cast<float>(number)), &array.bytes);
        break;
      case DType::kBF16:
        Append(math::FloatToBFloat16(static_cast<float>(number)), &array.bytes);
        break;
      case DType::kI16:
        Append(static_cast<int16_t>(Converted<int64_t>(number)), &array.bytes);
        break;
      case DType::kI32:
        Append(static_cast<int32_t>(Converted<int64_t>(number)), &array.bytes);
        break;
      case DType::kI64:
        Append(Converted<int64_t>(number), &array.bytes);
        break;
      case DType::kU8:
        Append(static_cast<uint8_t>(Converted<int64_t>(number)), &array.bytes);
        break;
      case DType::kBool:
        Append(static_cast<uint8_t>(number != 0), &array.bytes);
        break;
    }
  }
  return array;
}

// The value rounded to a float type.
double Rounded(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::kF32:
      return narrow;
    case DType::kF16:
      return math::HalfToFloat(math::FloatToHalf(narrow));
    case DType::kBF16:
      return math::BFloat16ToFloat(math::FloatToBFloat16(narrow));
    default:
      return value;
  }
}

// The indices of element i: "7, 0, 3".
std::string PlaceOf(int64_t i, const Shape& shape) {
  std::string place;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    place = StrCat(i % shape[d], place.empty() ? "" : ", ", place);
    i /= shape[d];
  }
  return place;
}

}  // namespace

std::vector<int64_t> IntsOf(const Array& array) {
  return NumbersOf<int64_t>(array);
}
std::vector<double> RealsOf(const Array& array) {
  return NumbersOf<double>(array);
}
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<int64_t>& ints) {
  return ArrayOfNumbers(dtype, shape, ints);
}
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<double>& reals) {
  return ArrayOfNumbers(dtype, shape, reals);
}

Status CheckFinite(const Array& array, DType dtype, const std::string& origin) {
  const TensorType& type = array.type;
  if (!IsFloat(type.dtype)) return {};
  for (int64_t i = 0; i < type.shape.num_elements(); ++i) {
    const auto value = NumberAt<double>(array, i);
    if (std::isfinite(Rounded(dtype, value))) continue;
    const bool is_finite = std::isfinite(value);
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[data] ", Quoted(origin), " [", PlaceOf(i, type.shape), "] is ",
               value, is_finite ? ", which is infinite in " : "",
               is_finite ? DTypeName(dtype) : "", "; expected finite numbers")};
  }
  return {};
}

Status CheckRange(const Array& array, int64_t end, const std::string& origin) {
  for (int64_t i = 0; i < array.type.shape.num_elements(); ++i) {
    const auto value = NumberAt<int64_t>(array, i);
    if (value >= 0 && value < end) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[data] ", Quoted(origin), " [", PlaceOf(i, array.type.shape),
               "] is ", value, "; expected 0 to ", end - 1)};
  }
  return {};
}

}  // namespace stowage
