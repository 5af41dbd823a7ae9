#include "math/trigonometry.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "math/small_floats.h"

namespace stowage::math {
namespace {

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
