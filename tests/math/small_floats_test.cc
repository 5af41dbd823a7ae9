#include "math/small_floats.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace stowage::math {
namespace {

// What the bits say, from the definition of the formats.
double Value(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double one = std::ldexp(1.0, fraction_bits);
  if (exponent == 0) {
    return sign * std::ldexp(fraction / one, 1 - bias);
  }
  return sign * std::ldexp(1 + fraction / one, exponent - bias);
}

TEST_CASE("all 65536 patterns of both formats convert to float and back") {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double half = Value(bits, 5, 10);
    const double bfloat = Value(bits, 8, 7);
    if (std::isnan(half)) {
      REQUIRE(std::isnan(HalfToFloat(bits)));
      REQUIRE(std::isnan(HalfToFloat(FloatToHalf(HalfToFloat(bits)))));
    } else {
      REQUIRE(HalfToFloat(bits) == half);
      REQUIRE(FloatToHalf(static_cast<float>(half)) == bits);
    }
    if (std::isnan(bfloat)) {
      REQUIRE(std::isnan(BFloat16ToFloat(bits)));
      REQUIRE(
          std::isnan(BFloat16ToFloat(FloatToBFloat16(BFloat16ToFloat(bits)))));
    } else {
      REQUIRE(BFloat16ToFloat(bits) == bfloat);
      REQUIRE(FloatToBFloat16(static_cast<float>(bfloat)) == bits);
    }
  }
}

TEST_CASE("between two neighbours the nearer is taken, halfway the even one") {
  for (uint32_t i = 0; i < 0x7BFF; ++i) {
    const auto lower = static_cast<uint16_t>(i);
    const auto upper = static_cast<uint16_t>(i + 1);
    const uint16_t even = i % 2 == 0 ? lower : upper;
    const double middle = (Value(lower, 5, 10) + Value(upper, 5, 10)) / 2;
    const auto middle_float = static_cast<float>(middle);  // exact
    REQUIRE(FloatToHalf(middle_float) == even);
    REQUIRE(FloatToHalf(std::nextafter(middle_float, 0.0f)) == lower);
    REQUIRE(FloatToHalf(std::nextafter(middle_float, 1e9f)) == upper);
    // A double may be nearer to the middle than any float.
    REQUIRE(FloatToHalf(RoundToOddFloat(std::nextafter(middle, 0.0))) == lower);
    REQUIRE(FloatToHalf(RoundToOddFloat(std::nextafter(middle, 1e9))) == upper);
    REQUIRE(FloatToHalf(RoundToOddFloat(-std::nextafter(middle, 1e9))) ==
            (upper | 0x8000));
  }
  for (uint32_t i = 0; i < 0x7F7F; ++i) {
    const auto lower = static_cast<uint16_t>(i);
    const auto upper = static_cast<uint16_t>(i + 1);
    const uint16_t even = i % 2 == 0 ? lower : upper;
    const double middle = (Value(lower, 8, 7) + Value(upper, 8, 7)) / 2;
    REQUIRE(FloatToBFloat16(static_cast<float>(middle)) == even);
    REQUIRE(FloatToBFloat16(RoundToOddFloat(std::nextafter(middle, 0.0))) ==
            lower);
    REQUIRE(FloatToBFloat16(RoundToOddFloat(std::nextafter(middle, 1e300))) ==
            upper);
  }
}

TEST_CASE("what is too large becomes infinity") {
  CHECK(FloatToHalf(65519.996f) == 0x7BFF);
  CHECK(FloatToHalf(65520.0f) == 0x7C00);
  CHECK(FloatToHalf(-1e30f) == 0xFC00);
  CHECK(FloatToBFloat16(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(FloatToHalf(RoundToOddFloat(1e300)) == 0x7C00);
  CHECK(FloatToBFloat16(RoundToOddFloat(-1e300)) == 0xFF80);
  CHECK(FloatToHalf(RoundToOddFloat(1e-300)) == 0);
}

}  // namespace
}  // namespace stowage::math
