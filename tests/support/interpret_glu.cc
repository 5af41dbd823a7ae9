// The definitions of glu and its gradient.

#include <cmath>
#include <cstdint>
#include <numbers>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

double NormalDistribution(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

double TanhOfGelu(double x) {
  return std::tanh(std::sqrt(2 / std::numbers::pi) *
                   (x + 0.044715 * x * x * x));
}

double Activation(int64_t which, double x) {
  switch (which) {
    case 0:
      return x / (1 + std::exp(-x));
    case 1:
      return 0.5 * x * (1 + TanhOfGelu(x));
    default:
      return x * NormalDistribution(x);
  }
}

double Derivative(int64_t which, double x) {
  if (which == 0) {
    const double s = 1 / (1 + std::exp(-x));
    return s * (1 + x * (1 - s));
  }
  if (which == 1) {
    const double t = TanhOfGelu(x);
    const double inner =
        std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
  }
  const double density =
      std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  return NormalDistribution(x) + x * density;
}

}  // namespace

void Glu(Call& c) {
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] =
        Activation(c.Int("activation"), c.input(0)[i]) * c.input(1)[i];
  }
}

void GluGrad(Call& c) {
  const int64_t which = c.Int("activation");
  for (int64_t i = 0; i < c.out[0].size(); ++i) {
    const double gate = c.input(0)[i];
    const double dy = c.input(2)[i];
    c.out[0][i] = dy * c.input(1)[i] * Derivative(which, gate);
    c.out[1][i] = dy * Activation(which, gate);
  }
}

}  // namespace stowage::interpret
