// The definition of constant, and how its bytes are read.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.h"
#include "ir/dtype.h"
#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

template <typename T>
double Decode(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return static_cast<double>(value);
}

double DecodeHalf(const char* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, 2);
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24)
                               : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  }
  return bits >> 15 ? -value : value;
}

double DecodeBFloat(const char* bytes) {
  uint16_t high;
  std::memcpy(&high, bytes, 2);
  const uint32_t bits = uint32_t{high} << 16;
  return Decode<float>(reinterpret_cast<const char*>(&bits));
}

double DecodeAs(DType dtype, const char* bytes) {
  switch (dtype) {
    case DType::kF32:
      return Decode<float>(bytes);
    case DType::kF64:
      return Decode<double>(bytes);
    case DType::kF16:
      return DecodeHalf(bytes);
    case DType::kBF16:
      return DecodeBFloat(bytes);
    case DType::kI16:
      return Decode<int16_t>(bytes);
    case DType::kI32:
      return Decode<int32_t>(bytes);
    case DType::kI64:
      return Decode<int64_t>(bytes);
    case DType::kU8:
    case DType::kBool:
      return Decode<uint8_t>(bytes);
  }
  STOWAGE_CHECK(false);
}

}  // namespace

void Constant(Call& c) {
  const DType dtype = c.node.attrs.Type("dtype");
  const std::string& bytes = c.node.attrs.Data("data");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] = DecodeAs(dtype, bytes.data() + i * SizeOf(dtype));
  }
}

}  // namespace stowage::interpret
