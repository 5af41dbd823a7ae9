#include "runtime/initial_values.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

namespace stowage {
namespace {

template <typename T>
std::vector<T> Values(std::string_view name, const TensorType& type, Init init,
                      uint64_t seed) {
  const ValueInfo value{.name = std::string(name),
                        .type = type,
                        .role = Role::kParam,
                        .init = init};
  const std::vector<std::byte> bytes = InitialValues(value, seed);
  REQUIRE(static_cast<Bytes>(bytes.size()) == type.bytes());
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_CASE("zeros and ones are zeros and ones in every type") {
  CHECK(Values<float>("w", {DType::kF32, {2}}, Init::Ones(), 1) ==
        std::vector<float>{1, 1});
  CHECK(Values<double>("w", {DType::kF64, {1}}, Init::Zeros(), 1) ==
        std::vector<double>{0});
  CHECK(Values<uint16_t>("w", {DType::kBF16, {1}}, Init::Ones(), 1) ==
        std::vector<uint16_t>{0x3F80});
  CHECK(Values<uint16_t>("w", {DType::kF16, {1}}, Init::Ones(), 1) ==
        std::vector<uint16_t>{0x3C00});
  CHECK(Values<int16_t>("w", {DType::kI16, {2}}, Init::Zeros(), 1) ==
        std::vector<int16_t>{0, 0});
  CHECK(Values<int64_t>("w", {DType::kI64, {1}}, Init::Ones(), 1) ==
        std::vector<int64_t>{1});
}

TEST_CASE("normal values have the moments of a normal distribution") {
  constexpr int64_t kCount = 200'000;
  const auto x =
      Values<double>("w", {DType::kF64, {kCount}}, Init::Normal(0.02), 7);
  double sum = 0, squares = 0;
  int64_t within = 0;
  for (const double v : x) {
    sum += v;
    squares += v * v;
    within += std::abs(v) < 0.02;
  }
  // Five standard errors: 0.02 / sqrt(n), 0.02 / sqrt(2 n).
  CHECK(std::abs(sum / kCount) < 5 * 0.02 / std::sqrt(kCount));
  CHECK(std::abs(std::sqrt(squares / kCount) - 0.02) <
        5 * 0.02 / std::sqrt(2.0 * kCount));
  CHECK(static_cast<double>(within) / kCount ==
        doctest::Approx(0.6827).epsilon(0.01));  // one standard deviation
}

TEST_CASE("uniform values fill their interval") {
  const auto x =
      Values<double>("w", {DType::kF64, {100'000}}, Init::Uniform(0.5), 7);
  double low = 1, high = -1, sum = 0;
  for (const double v : x) {
    low = std::min(low, v);
    high = std::max(high, v);
    sum += v;
  }
  CHECK(low >= -0.5);
  CHECK(low < -0.499);
  CHECK(high < 0.5);
  CHECK(high > 0.499);
  CHECK(std::abs(sum / 100'000) < 5 * 0.2887 / std::sqrt(100'000));
}

TEST_CASE("seed, name and index decide, and nothing else") {
  const Init init = Init::Normal(1);
  const auto a = Values<float>("a", {DType::kF32, {64}}, init, 1);
  CHECK(a == Values<float>("a", {DType::kF32, {8, 8}}, init, 1));
  CHECK(a != Values<float>("b", {DType::kF32, {64}}, init, 1));
  CHECK(a != Values<float>("a", {DType::kF32, {64}}, init, 2));
  const auto longer = Values<float>("a", {DType::kF32, {65}}, init, 1);
  CHECK(std::vector<float>(longer.begin(), longer.end() - 1) == a);
}

}  // namespace
}  // namespace stowage
