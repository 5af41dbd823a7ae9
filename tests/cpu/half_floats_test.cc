#include "cpu/kernels/half_floats.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ir/dtype.h"
#include "math/small_floats.h"

namespace stowage::cpu {
namespace {

float Number(DType half, uint16_t bits) {
  return half == DType::kF16 ? math::HalfToFloat(bits)
                             : math::BFloat16ToFloat(bits);
}
uint16_t Bits(DType half, float x) {
  return half == DType::kF16 ? math::FloatToHalf(x) : math::FloatToBFloat16(x);
}
bool Same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST_CASE("every 16-bit number is widened exactly, at any stride") {
  for (const DType half : {DType::kF16, DType::kBF16}) {
    for (const int64_t stride : {1, 3}) {
      std::vector<uint16_t> x(static_cast<size_t>(65536 * stride));
      for (size_t i = 0; i < 65536; ++i) {
        x[i * static_cast<size_t>(stride)] = static_cast<uint16_t>(i);
      }
      std::vector<float> y(65536);
      Widen(half, 65536, reinterpret_cast<const std::byte*>(x.data()), stride,
            y.data());
      int wrong = 0;
      for (size_t i = 0; i < 65536; ++i) {
        wrong += !Same(y[i], Number(half, static_cast<uint16_t>(i)));
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("f32 is narrowed to the nearest, ties to even") {
  std::vector<float> x = {0.0f,
                          -0.0f,
                          65504,
                          65519,
                          65520,
                          -65520,
                          0x1p-14f,
                          0x1p-24f,
                          0x1p-25f,
                          0x1.8p-25f,
                          0x1p-149f,
                          2049,
                          2051,
                          257,
                          259,
                          std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()};
  std::mt19937 random(3);
  while (x.size() < 100'000) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  for (const DType half : {DType::kF16, DType::kBF16}) {
    std::vector<uint16_t> y(x.size());
    Narrow(half, static_cast<int64_t>(x.size()), x.data(),
           reinterpret_cast<std::byte*>(y.data()));
    int wrong = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      wrong += !Same(Number(half, y[i]), Number(half, Bits(half, x[i])));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("nothing is written behind the last element") {
  for (const DType half : {DType::kF16, DType::kBF16}) {
    for (size_t n = 0; n < 40; ++n) {
      const std::vector<uint16_t> halves(n, 0x3C00);
      std::vector<float> wide(n + 1, -5);
      Widen(half, static_cast<int64_t>(n),
            reinterpret_cast<const std::byte*>(halves.data()), 1, wide.data());
      CHECK(wide[n] == -5);
      std::vector<uint16_t> narrow(n + 1, 0x1234);
      Narrow(half, static_cast<int64_t>(n), wide.data(),
             reinterpret_cast<std::byte*>(narrow.data()));
      CHECK(narrow[n] == 0x1234);
      narrow.pop_back();
      CHECK(narrow == halves);
    }
  }
}

}  // namespace
}  // namespace stowage::cpu
