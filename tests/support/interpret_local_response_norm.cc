// The definitions of local_response_norm and its gradient, as ONNX tells LRN's.

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {
namespace {

// Whether the window of channel `of` has channel `other`.
bool Has(const Call& c, int64_t of, int64_t other) {
  const double half = static_cast<double>(c.Int("size") - 1) / 2;
  const auto distance = static_cast<double>(other - of);
  return -std::floor(half) <= distance && distance <= std::ceil(half);
}

// Calls visit(j, window, base) for each element j, with the places of those that are
// added up for it and what the power is of.
template <typename F>
void ForWindows(const Call& c, const F& visit) {
  const Array& x = c.input(0);
  for (int64_t j = 0; j < x.size(); ++j) {
    const Dims at = Coordinates(x.shape, j);
    std::vector<int64_t> window;
    double squares = 0;
    for (int64_t other = 0; other < x.shape[1]; ++other) {
      if (!Has(c, at[1], other)) continue;
      Dims there = at;
      there[1] = other;
      window.push_back(Position(x.shape, there));
      squares += x[window.back()] * x[window.back()];
    }
    visit(j, window,
          c.Float("bias") +
              c.Float("alpha") / static_cast<double>(c.Int("size")) * squares);
  }
}

}  // namespace

void LocalResponseNorm(Call& c) {
  ForWindows(c, [&](int64_t j, const std::vector<int64_t>&, double base) {
    c.out[0][j] = c.input(0)[j] / std::pow(base, c.Float("beta"));
  });
}

// y_j = x_j b_j^-beta, where d b_j / d x_k = 2 alpha / size x_k for k in its window.
void LocalResponseNormGrad(Call& c) {
  const Array& x = c.input(0);
  const Array& dy = c.input(1);
  const double beta = c.Float("beta");
  const double slope =
      2 * c.Float("alpha") / static_cast<double>(c.Int("size"));
  ForWindows(c, [&](int64_t j, const std::vector<int64_t>& window, double b) {
    c.out[0][j] += dy[j] * std::pow(b, -beta);
    for (const int64_t k : window) {
      c.out[0][k] -=
          dy[j] * x[j] * beta * std::pow(b, -beta - 1) * slope * x[k];
    }
  });
}

}  // namespace stowage::interpret
