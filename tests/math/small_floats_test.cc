#include "math/small_floats.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "math/optimizer.h"
#include "math/random.h"

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

TEST_CASE(
    "the part that is cut off says how many of the random bits round up") {
  // 1 and a quarter of the way to the next bf16 number, 1 + 2^-7; and its negative.
  for (const float sign : {1.0f, -1.0f}) {
    const float x = sign * (1 + 0x1p-9f);
    int up = 0;
    for (uint32_t random = 0; random < 0x10000; ++random) {
      const float y = BFloat16ToFloat(StochasticBFloat16(x, random));
      REQUIRE((y == sign || y == sign * (1 + 0x1p-7f)));
      up += y != sign;
    }
    CHECK(up == 0x4000);
  }
}

TEST_CASE("bf16 numbers, infinity and NaN stay what they are") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {0.0f, -0.0f, 1.5f, -0x1p-130f, infinity, -infinity}) {
    for (const uint32_t random : {0u, 0x8000u, 0xFFFFu}) {
      const float y = BFloat16ToFloat(StochasticBFloat16(x, random));
      CHECK(FloatBits(y) == FloatBits(x));
    }
  }
  const float nan = BitsFloat(0x7F800001);
  CHECK(std::isnan(BFloat16ToFloat(StochasticBFloat16(nan, 0))));
  // Above the largest bf16 number is infinity.
  CHECK(BFloat16ToFloat(StochasticBFloat16(0x1.FFp127f, 0x8000)) == infinity);
}

TEST_CASE("words depend on key, step and quad, and differ from dropout's") {
  const PhiloxKey key = DropoutKey(5, 6);
  const auto first = [](const Philox4& words) { return words.word[0]; };
  CHECK(first(RoundingWords(key, 1, 2)) == first(RoundingWords(key, 1, 2)));
  CHECK(first(RoundingWords(key, 1, 2)) != first(RoundingWords(key, 1, 3)));
  CHECK(first(RoundingWords(key, 1, 2)) != first(RoundingWords(key, 2, 2)));
  CHECK(first(RoundingWords(key, 1, 2)) !=
        first(RoundingWords(DropoutKey(5, 7), 1, 2)));
  CHECK(first(RoundingWords(key, 1, 2)) !=
        first(Philox4x32(DropoutCounter(1, 2), key)));
}

constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kInfinity = 0x7F800000;

// The value of a bf16 whose exponent may be one above the largest: what lies
// there is rounded to as if it were a number.
double Unbounded(uint32_t upper) {
  const int exponent = static_cast<int>(upper >> 7);
  const int fraction = static_cast<int>(upper & 0x7F);
  return exponent == 0 ? std::ldexp(fraction, -133)
                       : std::ldexp(128 + fraction, exponent - 134);
}

// Whether a finite float, given by its bits, is split into the bf16 number
// nearest to it, of two the larger in magnitude, and joined without loss.
bool SplitsExactly(uint32_t bits) {
  const SplitMaster parts = Split(BitsFloat(bits));
  const uint32_t magnitude = bits & ~kSign;
  const double x = std::abs(double{BitsFloat(bits)});
  const uint32_t below = magnitude >> 16;
  const bool up = x - Unbounded(below) >= Unbounded(below + 1) - x;
  const uint32_t nearest = (bits & kSign) >> 16 | (up ? below + 1 : below);
  return parts.weight == nearest && FloatBits(Join(parts)) == bits;
}

TEST_CASE("floats of every exponent are split and joined bit for bit") {
  int64_t tried = 0;
  int64_t wrong = 0;
  for (uint32_t bits = 0; bits < kInfinity; bits += 4093) {  // a prime
    wrong += !SplitsExactly(bits) + !SplitsExactly(bits | kSign);
    tried += 2;
  }
  CHECK(tried > 1000000);
  CHECK(wrong == 0);
}

TEST_CASE("ties, their neighbours and the ends are split and joined") {
  int64_t wrong = 0;
  for (uint32_t upper = 0; upper < kInfinity >> 16; ++upper) {
    for (const uint32_t lower :
         {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const uint32_t bits = upper << 16 | lower;
      wrong += !SplitsExactly(bits) + !SplitsExactly(bits | kSign);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a tie goes away from zero and leaves the smallest integer") {
  // 1 + 2^-8, halfway between 1 and 1 + 2^-7.
  CHECK(Split(1 + 0x1p-8f).weight == 0x3F81);
  CHECK(Split(1 + 0x1p-8f).delta == -32768);
  CHECK(Split(-1 - 0x1p-8f).weight == 0xBF81);
  CHECK(Split(-1 - 0x1p-8f).delta == -32768);
  // One bit less goes towards zero and leaves the largest.
  CHECK(Split(BitsFloat(0x3F807FFF)).weight == 0x3F80);
  CHECK(Split(BitsFloat(0x3F807FFF)).delta == 32767);
}

TEST_CASE("the largest floats are an infinite weight and a negative integer") {
  const float largest = std::numeric_limits<float>::max();
  const float first = 0x1.FFp127f;  // halfway to 2^128
  for (const float sign : {1.0f, -1.0f}) {
    for (const float x : {largest, first}) {
      const SplitMaster parts = Split(sign * x);
      CHECK(BFloat16ToFloat(parts.weight) ==
            sign * std::numeric_limits<float>::infinity());
      CHECK(parts.delta < 0);
      CHECK(Join(parts) == sign * x);
    }
    const SplitMaster below = Split(sign * std::nextafter(first, 0.0f));
    CHECK(BFloat16ToFloat(below.weight) == sign * 0x1.FEp127f);
    CHECK(Join(below) == sign * std::nextafter(first, 0.0f));
  }
}

TEST_CASE("infinity stays infinity, and NaN a NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {infinity, -infinity}) {
    CHECK(Join(Split(x)) == x);
    CHECK(Split(x).delta == 0);
  }
  for (const uint32_t bits : {0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu}) {
    for (const uint32_t sign : {0u, kSign}) {
      const SplitMaster parts = Split(BitsFloat(bits | sign));
      CHECK(std::isnan(BFloat16ToFloat(parts.weight)));
      CHECK(parts.delta == 0);
      CHECK(std::isnan(Join(parts)));
    }
  }
}

TEST_CASE("a bf16 number with nothing left over stands for itself") {
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    const auto weight = static_cast<uint16_t>(upper);
    if (std::isnan(BFloat16ToFloat(weight))) continue;
    REQUIRE(Join({weight, 0}) == BFloat16ToFloat(weight));
    REQUIRE(Split(BFloat16ToFloat(weight)).weight == weight);
    REQUIRE(Split(BFloat16ToFloat(weight)).delta == 0);
  }
}

TEST_CASE("24 bits of a float are split and joined to the nearest of them") {
  int64_t wrong = 0;
  for (uint32_t bits = 0; bits < kInfinity; bits += 4093) {  // a prime
    for (const uint32_t sign : {0u, kSign}) {
      const ShortSplitMaster parts = SplitShort(BitsFloat(bits | sign));
      const uint32_t nearest = (bits + 0x80) / 0x100 * 0x100;
      wrong += FloatBits(JoinShort(parts)) != (nearest | sign);
      // The bf16 part is the nearest to these.
      wrong += parts.weight != Split(BitsFloat(nearest | sign)).weight;
    }
  }
  CHECK(wrong == 0);
  CHECK(JoinShort(SplitShort(1 + 0x1p-15f)) == 1 + 0x1p-15f);
  CHECK(JoinShort(SplitShort(1 + 0x1p-17f)) == 1);
  CHECK(SplitShort(-0.0f).weight == 0x8000);
  const float infinity = BitsFloat(kInfinity);
  CHECK(JoinShort(SplitShort(infinity)) == infinity);
  CHECK(std::isnan(JoinShort(SplitShort(BitsFloat(kInfinity | 1)))));
}

}  // namespace
}  // namespace stowage::math
