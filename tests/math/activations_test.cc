#include "math/activations.h"

#include <doctest/doctest.h>

#include <cmath>

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

}  // namespace
}  // namespace stowage::math
