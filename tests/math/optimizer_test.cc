#include "math/optimizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

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

// What bitsandbytes' create_dynamic_map has at some places, counted from 0's
// (create_dynamic_map(signed=True), and signed=False).
TEST_CASE("dynamic codes are those of bitsandbytes' tables") {
  const auto of = [](int code) {
    return SignedDynamicCode::Decode(static_cast<uint8_t>(code));
  };
  CHECK(of(0) == 0);
  CHECK(of(1) == doctest::Approx(5.5e-7));
  CHECK(of(-1) == doctest::Approx(-5.5e-7));
  CHECK(of(2) == doctest::Approx(3.25e-6));
  CHECK(of(64) == doctest::Approx(0.10703125));
  CHECK(of(127) == doctest::Approx(0.99296875));
  CHECK(of(-127) == doctest::Approx(-0.99296875));
  CHECK(of(128) == 1);
  CHECK(DynamicCode::Decode(1) == doctest::Approx(3.25e-7));
  CHECK(DynamicCode::Decode(2) == doctest::Approx(7.75e-7));
  CHECK(DynamicCode::Decode(127) == doctest::Approx(0.103515625));
  CHECK(DynamicCode::Decode(254) == doctest::Approx(0.996484375));
  CHECK(DynamicCode::Decode(255) == 1);
}

// Whether every number has the byte it stands for, and numbers between have the byte of
// the nearest one.
template <typename Code>
bool EncodesNearest() {
  std::vector<float> numbers;
  for (int code = 0; code < 256; ++code) {
    const float number = Code::Decode(static_cast<uint8_t>(code));
    if (Code::Encode(number) != code) return false;
    numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 1; i < numbers.size(); ++i) {
    const float low = numbers[i - 1], high = numbers[i];
    const float below = low + 0.499f * (high - low);
    const float above = low + 0.501f * (high - low);
    // A second moment that is not 0 is not rounded to it.
    const float down = std::is_same_v<Code, DynamicCode> && i == 1 ? high : low;
    if (Code::Decode(Code::Encode(below)) != down) return false;
    if (Code::Decode(Code::Encode(above)) != high) return false;
  }
  return true;
}

TEST_CASE("an element has the byte of the nearest number") {
  CHECK(EncodesNearest<SignedDynamicCode>());
  CHECK(EncodesNearest<DynamicCode>());
}

// FlashOptim's curves at values worked out by hand.
TEST_CASE("companded codes are those of their formulas") {
  // 127 * 2 * 0.25 / 1.25 = 50.8; 51/127 / (2 - 51/127) = 51/203.
  CHECK(SignedCompandedCode::Encode(0.25f) == 51);
  CHECK(SignedCompandedCode::Encode(-0.25f) == 256 - 51);
  CHECK(SignedCompandedCode::Decode(51) == doctest::Approx(51.0 / 203));
  CHECK(SignedCompandedCode::Encode(1) == 127);
  CHECK(SignedCompandedCode::Encode(-1) == 129);
  CHECK(SignedCompandedCode::Decode(129) == -1);
  CHECK(CompandedCode::Encode(0.25f) == 128);  // 127.5
  CHECK(CompandedCode::Decode(51) == doctest::Approx(0.04));
  CHECK(CompandedCode::Encode(1) == 255);
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    CHECK(CompandedCode::Encode(CompandedCode::Decode(byte)) == code);
    if (code == 128) continue;  // no element has it
    CHECK(SignedCompandedCode::Encode(SignedCompandedCode::Decode(byte)) ==
          code);
  }
}

template <typename Code>
void CheckEnds() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(Code::Encode(0) == 0);
  CHECK(Code::Decode(0) == 0);
  CHECK(Code::Encode(nan) == 0);
  CHECK(Code::Decode(Code::Encode(1 + 0x1p-20f)) == 1);
  CHECK(Code::Decode(Code::Encode(infinity)) == 1);
}

TEST_CASE("0 is the byte 0, and what is beyond 1 counts as 1") {
  CheckEnds<SignedDynamicCode>();
  CheckEnds<DynamicCode>();
  CheckEnds<SignedCompandedCode>();
  CheckEnds<CompandedCode>();
  CHECK(DynamicCode::Encode(1e-30f) == 1);
  CHECK(CompandedCode::Encode(1e-30f) == 1);
  CHECK(InverseOf(0) == 0);
  CHECK(InverseOf(0.5f) == 2);
}

}  // namespace
}  // namespace stowage::math
