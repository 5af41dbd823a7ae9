// The definitions of layer_norm and its gradient.

#include <cmath>
#include <cstdint>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {

void LayerNorm(Call& c) {
  const Array& x = c.input(0);
  const int64_t n = x.shape.back();
  const auto count = static_cast<double>(n);
  ForRows(x, [&](int64_t row, int64_t begin) {
    double mean = 0;
    for (int64_t j = 0; j < n; ++j) mean += x[begin + j] / count;
    double variance = 0;
    for (int64_t j = 0; j < n; ++j) {
      variance += (x[begin + j] - mean) * (x[begin + j] - mean) / count;
    }
    const double rstd = 1 / std::sqrt(variance + c.Float("eps"));
    c.out[1][row] = mean;
    c.out[2][row] = rstd;
    for (int64_t j = 0; j < n; ++j) {
      c.out[0][begin + j] =
          (x[begin + j] - mean) * rstd * c.input(1)[j] + c.input(2)[j];
    }
  });
}

void LayerNormGrad(Call& c) {
  const Array& x = c.input(0);
  const Array& gamma = c.input(1);
  const Array& dy = c.input(4);
  const int64_t n = x.shape.back();
  ForRows(x, [&](int64_t row, int64_t begin) {
    const double rstd = c.input(3)[row];
    const auto normal = [&](int64_t j) {
      return (x[begin + j] - c.input(2)[row]) * rstd;
    };
    double mean_g = 0;   // of g = dy gamma
    double mean_gn = 0;  // of g times the normalized x
    for (int64_t j = 0; j < n; ++j) {
      const double g = dy[begin + j] * gamma[j];
      mean_g += g / static_cast<double>(n);
      mean_gn += g * normal(j) / static_cast<double>(n);
      c.out[1][j] += dy[begin + j] * normal(j);
      c.out[2][j] += dy[begin + j];
    }
    for (int64_t j = 0; j < n; ++j) {
      c.out[0][begin + j] =
          rstd * (dy[begin + j] * gamma[j] - mean_g - normal(j) * mean_gn);
    }
  });
}

}  // namespace stowage::interpret
