#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "math/activations.h"
#include "math/small_floats.h"
#include "math/trigonometry.h"

namespace stowage::math {
namespace {

TEST_CASE("activations have the values of their definitions") {
  // Phi(1) = 0.84134474606854293, from tables.
  CHECK(GeluErf(1.0) == doctest::Approx(0.84134474606854293).epsilon(1e-15));
  CHECK(GeluErf(-1.0) == doctest::Approx(-0.15865525393145707).epsilon(1e-15));
  // The left tail: -10 Phi(-10), Phi(-10) = 7.6198530241605e-24.
  CHECK(GeluErf(-10.0) == doctest::Approx(-7.6198530241605e-23).epsilon(1e-12));
  // 2 (1 + tanh(0.7978845608 (2 + 0.044715 8))) / 2.
  CHECK(GeluTanh(2.0) ==
        doctest::Approx(1 + std::tanh(0.7978845608028654 * 2.35772))
            .epsilon(1e-15));
  CHECK(Sigmoid(0.0) == 0.5);
  CHECK(Silu(3.0) == doctest::Approx(3 / (1 + std::exp(-3.0))).epsilon(1e-15));
  CHECK(GeluTanh(0.5f) == doctest::Approx(GeluTanh(0.5)).epsilon(1e-6));
}

template <typename F, typename Derivative>
void CheckDerivative(F f, Derivative derivative) {
  constexpr double kStep = 1e-5;
  for (double x = -6; x <= 6; x += 0.37) {
    CAPTURE(x);
    const double slope = (f(x + kStep) - f(x - kStep)) / (2 * kStep);
    CHECK(derivative(x) == doctest::Approx(slope).epsilon(1e-8));
  }
}

TEST_CASE("derivatives agree with central differences") {
  CheckDerivative(GeluTanh<double>, GeluTanhDerivative<double>);
  CheckDerivative(GeluErf<double>, GeluErfDerivative<double>);
  CheckDerivative(Silu<double>, SiluDerivative<double>);
  CheckDerivative(Sigmoid<double>, [](double x) {
    return SigmoidDerivativeFromOutput(Sigmoid(x));
  });
  CheckDerivative(
      [](double x) { return std::tanh(x); },
      [](double x) { return TanhDerivativeFromOutput(std::tanh(x)); });
}

// |y - exact| in units of the last place of exact as a float.
double ErrorInUlps(float y, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(y - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// The C library's functions of double precision are within one of their units.
struct Worst {
  double sin = 0, cos = 0;
  void Add(float x) {
    sin = std::max(sin, ErrorInUlps(Sin(x), std::sin(double{x})));
    cos = std::max(cos, ErrorInUlps(Cos(x), std::cos(double{x})));
  }
};

TEST_CASE("sin and cos of floats of every size are within 1.6 units") {
  Worst worst;
  for (uint32_t bits = 0; bits < 0x7F800000; bits += 1009) {
    worst.Add(BitsFloat(bits));
    worst.Add(BitsFloat(bits | 0x80000000));
  }
  CHECK(worst.sin < 1.6);
  CHECK(worst.cos < 1.6);
}

TEST_CASE("sin and cos are exact to 1.6 units where they are almost 0") {
  Worst worst;
  // The floats around multiples of pi/2, on both sides of 2^16.
  for (int64_t k = 1; k < (int64_t{1} << 40); k += 1 + k / 7) {
    const auto x = static_cast<float>(static_cast<double>(k) * M_PI_2);
    worst.Add(std::nextafterf(x, 0));
    worst.Add(x);
    worst.Add(std::nextafterf(x, INFINITY));
  }
  // The float that is nearest to one: 16367173 2^72 (Muller, Elementary
  // Functions, 2016, table 11.1), for its size.
  worst.Add(std::ldexp(16367173.0f, 72));
  CHECK(worst.sin < 1.6);
  CHECK(worst.cos < 1.6);
}

TEST_CASE("sin and cos of what is special") {
  CHECK(FloatBits(Sin(0.0f)) == 0);
  CHECK(FloatBits(Sin(-0.0f)) == 0x80000000);
  CHECK(Cos(-0.0f) == 1.0f);
  const float smallest = std::numeric_limits<float>::denorm_min();
  CHECK(Sin(-smallest) == -smallest);
  CHECK(Cos(smallest) == 1.0f);
  for (const float x : {INFINITY, -INFINITY, NAN}) {
    CHECK(std::isnan(Sin(x)));
    CHECK(std::isnan(Cos(x)));
  }
}

TEST_CASE("sin is odd and cos even, to the bit") {
  for (uint32_t bits = 1; bits < 0x7F800000; bits += 1000003) {
    const float x = BitsFloat(bits);
    CHECK(Sin(-x) == -Sin(x));
    CHECK(Cos(-x) == Cos(x));
  }
}

}  // namespace
}  // namespace stowage::math
