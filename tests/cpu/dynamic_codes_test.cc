#include "cpu/kernels/dynamic_codes.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "math/moment_codes.h"

namespace stowage::cpu {
namespace {

// Floats of all magnitudes and signs; with each number of the code, and each middle
// between two, the floats on both sides.
template <typename Code>
std::vector<float> Numbers() {
  std::vector<float> numbers = {0.0f, -0.0f, 2.0f, -2.0f};
  for (const float special : {std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::denorm_min()}) {
    numbers.push_back(special);
    numbers.push_back(-special);
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 40'503) {
    numbers.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  const auto beside = [&](float x) {
    for (uint32_t ulps = 0; ulps < 7; ++ulps) {
      const float near =
          std::bit_cast<float>(std::bit_cast<uint32_t>(x) + ulps - 3);
      numbers.push_back(near);
      numbers.push_back(-near);
    }
  };
  for (int code = 1; code < 128; ++code) {
    const float number = Code::Decode(static_cast<uint8_t>(code));
    const float next = Code::Decode(static_cast<uint8_t>(code + 1));
    beside(number);
    beside(0.5f * (number + next));
  }
  return numbers;
}

template <typename Code>
void CheckCodes() {
  const std::vector<float> numbers = Numbers<Code>();
  for (const float inverse : {1.0f, 0.37f, 0.0f}) {
    std::vector<uint8_t> codes(numbers.size());
    EncodeDynamic<Code>(numbers.data(), static_cast<int64_t>(numbers.size()),
                        inverse, codes.data());
    int64_t differ = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      differ += codes[i] != Code::Encode(numbers[i] * inverse) ? 1 : 0;
    }
    CHECK(differ == 0);
  }
}

TEST_CASE("whole blocks have the bytes that their numbers have one by one") {
  SUBCASE("signed") { CheckCodes<math::SignedDynamicCode>(); }
  SUBCASE("not signed") { CheckCodes<math::DynamicCode>(); }
}

TEST_CASE("no more is written than there are numbers") {
  const std::vector<float> numbers(40, 1.0f);
  for (int64_t count = 0; count < 40; ++count) {
    std::vector<uint8_t> codes(41, 77);
    EncodeDynamic<math::DynamicCode>(numbers.data(), count, 1.0f, codes.data());
    CHECK(codes[static_cast<size_t>(count)] == 77);
    if (count > 0) CHECK(codes[static_cast<size_t>(count) - 1] == 255);
  }
}

}  // namespace
}  // namespace stowage::cpu
