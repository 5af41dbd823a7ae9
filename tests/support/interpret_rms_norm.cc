// The definitions of rms_norm and its gradient.

#include <cmath>
#include <cstdint>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {

void RmsNorm(Call& c) {
  const Array& x = c.input(0);
  const int64_t n = x.shape.back();
  for (int64_t row = 0; row < x.size() / n; ++row) {
    double squares = 0;
    for (int64_t j = row * n; j < (row + 1) * n; ++j) squares += x[j] * x[j];
    const double root =
        std::sqrt(squares / static_cast<double>(n) + c.Float("eps"));
    c.out[1][row] = 1 / root;
    for (int64_t j = 0; j < n; ++j) {
      c.out[0][row * n + j] = x[row * n + j] / root * c.input(1)[j];
    }
  }
}

// y_j = gamma_j x_j r with r = (mean(x^2) + eps)^(-1/2), so that
// d y_j / d x_k = gamma_j r [j = k] - gamma_j x_j x_k r^3 / n.
void RmsNormGrad(Call& c) {
  const Array& x = c.input(0);
  const Array& gamma = c.input(1);
  const Array& dy = c.input(3);
  const int64_t n = x.shape.back();
  for (int64_t row = 0; row < x.size() / n; ++row) {
    const double r = c.input(2)[row];
    const int64_t at = row * n;
    double product = 0;  // of dy gamma and x
    for (int64_t j = 0; j < n; ++j) {
      product += dy[at + j] * gamma[j] * x[at + j];
      c.out[1][j] += dy[at + j] * x[at + j] * r;
    }
    for (int64_t k = 0; k < n; ++k) {
      c.out[0][at + k] = dy[at + k] * gamma[k] * r - product * x[at + k] * r *
                                                         r * r /
                                                         static_cast<double>(n);
    }
  }
}

}  // namespace stowage::interpret
