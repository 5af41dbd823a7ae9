#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace stowage {
namespace {

uint32_t Hex(std::string_view digits) {
  return static_cast<uint32_t>(std::stoul(std::string(digits), nullptr, 16));
}

// tests/goldens/make_gguf_goldens.py
TEST_CASE(
    "blocks of every type are the numbers that ggml's package makes of them") {
  std::ifstream in("tests/goldens/quantized.csv");
  std::string line;
  REQUIRE(std::getline(in, line));
  for (int i = 0; i < kWeightTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    const BlockFormat& format = FormatOf(type);
    INFO(std::string(format.name));
    REQUIRE(std::getline(in, line));
    const size_t first = line.find(','), second = line.rfind(',');
    REQUIRE(line.substr(0, first) == format.name);
    const std::string hex = line.substr(first + 1, second - first - 1);
    const std::string golden = line.substr(second + 1);
    std::vector<std::byte> bytes;
    for (size_t at = 0; at < hex.size(); at += 2) {
      bytes.push_back(static_cast<std::byte>(Hex(hex.substr(at, 2))));
    }
    std::vector<float> numbers(golden.size() / 8);
    REQUIRE(numbers.size() > 1);
    REQUIRE(BytesOf(type, std::ssize(numbers)) == std::ssize(bytes));
    Dequantize(type, bytes, numbers);
    int wrong = 0;
    for (size_t at = 0; at < numbers.size(); ++at) {
      // Equal as numbers: 8 - 8 may be a zero of either sign.
      const auto expected = std::bit_cast<float>(Hex(golden.substr(at * 8, 8)));
      if (numbers[at] != expected) ++wrong;
    }
    CHECK(wrong == 0);
  }
  CHECK_FALSE(std::getline(in, line));
}

TEST_CASE("a type's blocks have the sizes that are published") {
  // Bits a number, of ggml's table: 4.5, 5, 5.5, 6, 8.5, 4.5, 5.5, 6.5625, and 2.625,
  // 3.4375, 4.5, 4.25, 1.6875, 2.0625, 4.25.
  CHECK(BytesOf(WeightType::kQ4_0, 256) * 8 == 1152);
  CHECK(BytesOf(WeightType::kQ4_1, 256) * 8 == 1280);
  CHECK(BytesOf(WeightType::kQ5_0, 256) * 8 == 1408);
  CHECK(BytesOf(WeightType::kQ5_1, 256) * 8 == 1536);
  CHECK(BytesOf(WeightType::kQ8_0, 256) * 8 == 2176);
  CHECK(BytesOf(WeightType::kQ4_K, 256) * 8 == 1152);
  CHECK(BytesOf(WeightType::kQ5_K, 256) * 8 == 1408);
  CHECK(BytesOf(WeightType::kQ6_K, 256) * 8 == 1680);
  CHECK(BytesOf(WeightType::kQ2_K, 256) * 8 == 672);
  CHECK(BytesOf(WeightType::kQ3_K, 256) * 8 == 880);
  CHECK(BytesOf(WeightType::kIQ4_NL, 256) * 8 == 1152);
  CHECK(BytesOf(WeightType::kIQ4_XS, 256) * 8 == 1088);
  CHECK(BytesOf(WeightType::kTQ1_0, 256) * 8 == 432);
  CHECK(BytesOf(WeightType::kTQ2_0, 256) * 8 == 528);
  CHECK(BytesOf(WeightType::kMXFP4, 256) * 8 == 1088);
}

}  // namespace
}  // namespace stowage
