#include "math/split_master.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "math/small_floats.h"

namespace stowage::math {
namespace {

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
