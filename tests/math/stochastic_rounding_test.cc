#include "math/stochastic_rounding.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace stowage::math {
namespace {

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

}  // namespace
}  // namespace stowage::math
