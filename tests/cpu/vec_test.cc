// The registers of lanes and their elementary functions.

#include "cpu/kernels/vec.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/optimizer_updates.h"
#include "ir/tensor_type.h"
#include "math/optimizer.h"
#include "math/small_floats.h"

namespace stowage::cpu {
namespace {

// In which the exact values of T are computed.
template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

// The largest distance of f(x) from want(x), in units of the last place of T,
// over 2^18 numbers between low and high.
template <typename T, typename F, typename Want>
double WorstUlps(double low, double high, F f, Want want) {
  constexpr int kLanes = Vec<T>::kLanes;
  constexpr int kNumbers = 1 << 18;
  double worst = 0;
  for (int i = 0; i < kNumbers; i += kLanes) {
    T x[kLanes];
    T y[kLanes];
    for (int j = 0; j < kLanes; ++j) {
      x[j] = static_cast<T>(low + (high - low) * (i + j) / kNumbers);
    }
    f(Vec<T>::Load(x)).Store(y);
    for (int j = 0; j < kLanes; ++j) {
      const Wide<T> exact = want(static_cast<Wide<T>>(x[j]));
      const Wide<T> unit =
          std::max<Wide<T>>(std::abs(exact) * std::numeric_limits<T>::epsilon(),
                            std::numeric_limits<T>::min());
      worst =
          std::max(worst, static_cast<double>(std::abs(y[j] - exact) / unit));
    }
  }
  return worst;
}

TEST_CASE("elementary functions are within a few units in the last place") {
  const auto exp_want = [](auto x) { return std::exp(x); };
  const auto log_want = [](auto x) { return std::log(x); };
  const auto tanh_want = [](auto x) { return std::tanh(x); };
  const auto sin_want = [](auto x) { return std::sin(x); };
  const auto cos_want = [](auto x) { return std::cos(x); };
  const auto exp = [](auto x) { return Exp(x); };
  const auto log = [](auto x) { return Log(x); };
  const auto tanh = [](auto x) { return Tanh(x); };
  CHECK(WorstUlps<float>(-87, 88, exp, exp_want) < 3);
  CHECK(WorstUlps<double>(-700, 700, exp, exp_want) < 3);
  CHECK(WorstUlps<float>(1e-3, 100, log, log_want) < 3);
  CHECK(WorstUlps<double>(1e-3, 100, log, log_want) < 3);
  CHECK(WorstUlps<float>(-10, 10, tanh, tanh_want) < 5);
  CHECK(WorstUlps<float>(-0.1, 0.1, tanh, tanh_want) < 5);
  CHECK(WorstUlps<double>(-10, 10, tanh, tanh_want) < 3);
  const auto sin = [](auto x) { return Sin(x); };
  const auto cos = [](auto x) { return Cos(x); };
  CHECK(WorstUlps<float>(0.1, 3, sin, sin_want) < 3);
  CHECK(WorstUlps<float>(-1.5, 1.5, cos, cos_want) < 3);
}

TEST_CASE("erf, log1p and expm1 keep their digits next to 0") {
  const auto erf_want = [](auto x) { return std::erf(x); };
  const auto log1p_want = [](auto x) { return std::log1p(x); };
  const auto expm1_want = [](auto x) { return std::expm1(x); };
  const auto erf = [](auto x) { return Erf(x); };
  const auto log1p = [](auto x) { return Log1p(x); };
  const auto expm1 = [](auto x) { return Expm1(x); };
  for (const double reach : {1e-6, 0.01, 1.0, 4.0}) {
    CHECK(WorstUlps<float>(-reach, reach, erf, erf_want) < 4);
    CHECK(WorstUlps<double>(-reach, reach, erf, erf_want) < 3);
  }
  for (const double reach : {1e-6, 0.01, 0.99}) {
    CHECK(WorstUlps<float>(-reach, reach, log1p, log1p_want) < 4);
    CHECK(WorstUlps<double>(-reach, reach, log1p, log1p_want) < 4);
  }
  CHECK(WorstUlps<float>(1, 1e6, log1p, log1p_want) < 4);
  CHECK(WorstUlps<double>(1, 1e6, log1p, log1p_want) < 4);
  for (const double reach : {1e-6, 0.01, 1.0, 80.0}) {
    CHECK(WorstUlps<float>(-reach, reach, expm1, expm1_want) < 4);
    CHECK(WorstUlps<double>(-reach, reach, expm1, expm1_want) < 4);
  }
}

TEST_CASE("erfc keeps its relative precision far out to the right") {
  const auto want = [](auto x) { return std::erfc(x); };
  const auto f = [](auto x) { return Erfc(x); };
  CHECK(WorstUlps<float>(-4, 1, f, want) < 6);
  // exp(-x^2) takes the rounding of x^2 times itself.
  CHECK(WorstUlps<float>(1, 9, f, want) < 100);
  CHECK(WorstUlps<double>(-4, 9, f, want) < 3);
}

TEST_CASE("the last, partly filled register computes like the others") {
  std::vector<float> x(3 * Vec<float>::kLanes + 1);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 0.1f * static_cast<float>(i) - 2;
  }
  std::vector<float> whole(x.size());
  ForEachVec<float>(static_cast<int64_t>(x.size()), [&](auto at) {
    at.Store(whole.data(), Exp(at.Load(x.data())));
  });
  for (size_t count = 1; count < x.size(); ++count) {
    std::vector<float> part(x.size(), -1);
    ForEachVec<float>(static_cast<int64_t>(count), [&](auto at) {
      at.Store(part.data(), Exp(at.Load(x.data())));
    });
    for (size_t i = 0; i < x.size(); ++i) {
      CHECK(part[i] == (i < count ? whole[i] : -1));
    }
  }
}

TEST_CASE("maxima and minima carry NaN, sums and largest lanes hold all") {
  using V = Vec<float>;
  const V nan = V::All(std::numeric_limits<float>::quiet_NaN());
  const V one = V(1);
  CHECK(AnyNaN(Max(nan, one)));
  CHECK(AnyNaN(Max(one, nan)));
  CHECK(AnyNaN(Min(nan, one)));
  CHECK(AnyNaN(Min(one, nan)));
  CHECK_FALSE(AnyNaN(one));
  float lanes[V::kLanes];
  float sum = 0;
  for (int i = 0; i < V::kLanes; ++i) {
    lanes[i] = static_cast<float>(i * i);
    sum += lanes[i];
  }
  CHECK(SumLanes(V::Load(lanes)) == sum);
  CHECK(LargestLane(V::Load(lanes)) == lanes[V::kLanes - 1]);
}

TEST_CASE("a square is transposed") {
  constexpr int kLanes = Vec<double>::kLanes;
  double from[kLanes][kLanes + 3];
  double to[kLanes][kLanes + 1];
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) from[i][j] = 100 * i + j;
  }
  TransposeSquare(&from[0][0], kLanes + 3, &to[0][0], kLanes + 1);
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < kLanes; ++j) CHECK(to[j][i] == from[i][j]);
  }
}

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
