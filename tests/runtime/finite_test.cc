#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "runtime/floats.h"

namespace stowage {
namespace {

template <typename T>
std::optional<int64_t> Find(DType dtype, const std::vector<T>& values) {
  return FindNonFinite(dtype, std::as_bytes(std::span(values)));
}

TEST_CASE("the first NaN or infinity is found, the largest numbers are not") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float max = std::numeric_limits<float>::max();
  CHECK_FALSE(Find<float>(DType::kF32, {}).has_value());
  CHECK_FALSE(Find<float>(DType::kF32, {max, -max, 0, -0.0f}).has_value());
  CHECK(Find<float>(DType::kF32, {1, nan, inf}) == 1);
  CHECK(Find<float>(DType::kF32, {1, 2, -inf}) == 2);
  CHECK(Find<double>(DType::kF64, {1e308, -INFINITY}) == 1);
  CHECK_FALSE(Find<double>(DType::kF64, {1e308}).has_value());
  // IEEE half: 0x7BFF is 65504, 0x7C00 infinity; bfloat16: 0x7F7F and 0x7F80.
  CHECK_FALSE(Find<uint16_t>(DType::kF16, {0x7BFF, 0xFBFF}).has_value());
  CHECK(Find<uint16_t>(DType::kF16, {0, 0xFC00}) == 1);
  CHECK(Find<uint16_t>(DType::kF16, {0x7C01}) == 0);
  CHECK_FALSE(Find<uint16_t>(DType::kBF16, {0x7F7F, 0x7C00}).has_value());
  CHECK(Find<uint16_t>(DType::kBF16, {0, 0, 0xFF80}) == 2);
  CHECK_FALSE(Find<int32_t>(DType::kI32, {-1, 0x7F800000}).has_value());
}

TEST_CASE("a float is told as it is") {
  const std::vector<uint16_t> halves = {0x3C00, 0xFC00};
  CHECK(FloatText(DType::kF16, std::as_bytes(std::span(halves)), 0) == "1");
  CHECK(FloatText(DType::kF16, std::as_bytes(std::span(halves)), 1) == "-inf");
  const std::vector<double> doubles = {0.25};
  CHECK(FloatText(DType::kF64, std::as_bytes(std::span(doubles)), 0) == "0.25");
  const std::vector<uint16_t> brains = {0x3F80};
  CHECK(FloatText(DType::kBF16, std::as_bytes(std::span(brains)), 0) == "1");
}

}  // namespace
}  // namespace stowage
