#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/values.h"

namespace stowage {
namespace {

template <typename T>
std::vector<T> Values(std::string_view name, const TensorType& type, Init init,
                      uint64_t seed) {
  const ValueInfo value{.name = std::string(name),
                        .type = type,
                        .role = Role::kParam,
                        .init = init};
  std::vector<std::byte> bytes;
  MakeInitialValues(value, seed,
                    [&](Bytes begin, std::span<const std::byte> part) {
                      CHECK(begin == static_cast<Bytes>(bytes.size()));
                      bytes.insert(bytes.end(), part.begin(), part.end());
                    });
  REQUIRE(static_cast<Bytes>(bytes.size()) == type.bytes());
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_CASE("zeros, ones and constants are that in every type") {
  CHECK(Values<float>("w", {DType::kF32, {2}}, Init::Ones(), 1) ==
        std::vector<float>{1, 1});
  CHECK(Values<double>("w", {DType::kF64, {1}}, Init::Zeros(), 1) ==
        std::vector<double>{0});
  CHECK(Values<float>("w", {DType::kF32, {2}}, Init::Constant(0.5), 1) ==
        std::vector<float>{0.5, 0.5});
  CHECK(Values<int64_t>("w", {DType::kI64, {1}}, Init::Constant(7), 1) ==
        std::vector<int64_t>{7});
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

TEST_CASE("truncated normal values end at two deviations") {
  constexpr int64_t kCount = 200'000;
  const auto x = Values<double>("w", {DType::kF64, {kCount}},
                                Init::TruncatedNormal(0.5), 7);
  double sum = 0, squares = 0, largest = 0;
  for (const double v : x) {
    sum += v;
    squares += v * v;
    largest = std::max(largest, std::abs(v));
  }
  CHECK(largest <= 1);
  CHECK(largest > 0.999);
  // The variance of a normal cut at 2 is 1 - 4 phi(2) / (2 Phi(2) - 1). What is cut
  // has smaller fourth moments than a normal, so the error below is an upper bound.
  const double deviation = 0.5 * 0.87962;
  CHECK(std::abs(sum / kCount) < 5 * deviation / std::sqrt(kCount));
  CHECK(std::abs(std::sqrt(squares / kCount) - deviation) <
        5 * deviation / std::sqrt(2.0 * kCount));
}

TEST_CASE("the rows or the columns of an orthogonal tensor are orthonormal") {
  struct Row {
    Shape shape;
    int64_t rows, columns;
  };
  for (const Row& row : {Row{{5, 40}, 5, 40}, Row{{64, 64}, 64, 64},
                         Row{{90, 3, 2, 2}, 90, 12}, Row{{1, 7}, 1, 7}}) {
    INFO(row.rows << " x " << row.columns);
    const auto w =
        Values<double>("w", {DType::kF64, row.shape}, Init::Orthogonal(3), 1);
    const bool by_rows = row.rows <= row.columns;
    const int64_t count = by_rows ? row.rows : row.columns;
    const int64_t length = by_rows ? row.columns : row.rows;
    const auto at = [&](int64_t vector, int64_t k) {
      return w[static_cast<size_t>(by_rows ? vector * row.columns + k
                                           : k * row.columns + vector)];
    };
    double largest = 0;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < count; ++j) {
        double dot = 0;
        for (int64_t k = 0; k < length; ++k) dot += at(i, k) * at(j, k);
        largest = std::max(largest, std::abs(dot - (i == j ? 9 : 0)));
      }
    }
    CHECK(largest < 1e-12);
  }
  const TensorType type{DType::kF64, {4, 4}};
  const auto a = Values<double>("a", type, Init::Orthogonal(), 1);
  CHECK(a == Values<double>("a", type, Init::Orthogonal(), 1));
  CHECK(a != Values<double>("a", type, Init::Orthogonal(), 2));
  CHECK(a != Values<double>("b", type, Init::Orthogonal(), 1));
}

TEST_CASE("seed, name and index decide, and nothing else") {
  const Init init = Init::Normal(1);
  const auto a = Values<float>("a", {DType::kF32, {64}}, init, 1);
  CHECK(a == Values<float>("a", {DType::kF32, {8, 8}}, init, 1));
  CHECK(a != Values<float>("b", {DType::kF32, {64}}, init, 1));
  CHECK(a != Values<float>("a", {DType::kF32, {64}}, init, 2));
  const auto longer = Values<float>("a", {DType::kF32, {65}}, init, 1);
  CHECK(std::vector<float>(longer.begin(), longer.end() - 1) == a);
  // However many are handed on at a time.
  const int64_t many = 300'000;
  const auto floats = Values<float>("a", {DType::kF32, {many}}, init, 1);
  const auto doubles = Values<double>("a", {DType::kF64, {many}}, init, 1);
  CHECK(std::ranges::equal(floats, doubles, [](float x, double y) {
    return x == static_cast<float>(y);
  }));
}

}  // namespace
}  // namespace stowage
