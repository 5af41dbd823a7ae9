#include "math/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>

namespace stowage::math {
namespace {

TEST_CASE("AdamW follows its definition over several steps") {
  const double lr = 0.01, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, decay = 0.1;
  double w = 1, m = 0, v = 0;
  double want_w = 1, want_m = 0, want_v = 0;
  for (int t = 1; t <= 20; ++t) {
    const double g = std::sin(t) + 0.3;
    AdamWStep(AdamWConstants::At(t, lr, beta1, beta2, eps, decay), g, &w, &m,
              &v);
    // Loshchilov & Hutter 2019, algorithm 2, line by line.
    want_m = beta1 * want_m + (1 - beta1) * g;
    want_v = beta2 * want_v + (1 - beta2) * g * g;
    const double m_hat = want_m / (1 - std::pow(beta1, t));
    const double v_hat = want_v / (1 - std::pow(beta2, t));
    want_w -= lr * m_hat / (std::sqrt(v_hat) + eps) + lr * decay * want_w;
    CHECK(w == doctest::Approx(want_w).epsilon(1e-13));
    CHECK(m == doctest::Approx(want_m).epsilon(1e-13));
    CHECK(v == doctest::Approx(want_v).epsilon(1e-13));
  }
}

TEST_CASE("the first step of AdamW without decay moves by lr") {
  double w = 0, m = 0, v = 0;
  AdamWStep(AdamWConstants::At(1, 0.125, 0.9, 0.999, 1e-12, 0), -3.0, &w, &m,
            &v);
  CHECK(w == doctest::Approx(0.125).epsilon(1e-9));
}

TEST_CASE("SGD and momentum by hand") {
  double w = 2;
  SgdStep(0.5, 0.25, 3.0, &w);  // 2 - 0.5 (3 + 0.5)
  CHECK(w == 0.25);
  double velocity = 4;
  w = 2;
  MomentumStep(0.5, 0.75, 0.25, 3.0, &w, &velocity);
  CHECK(velocity == 6.5);  // 3 + 3 + 0.5
  CHECK(w == -1.25);       // 2 - 3.25
}

}  // namespace
}  // namespace stowage::math
