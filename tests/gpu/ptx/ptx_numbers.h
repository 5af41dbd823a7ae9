#ifndef STOWAGE_TESTS_GPU_PTX_PTX_NUMBERS_H_
#define STOWAGE_TESTS_GPU_PTX_PTX_NUMBERS_H_

// Implements arithmetic of the PTX ISA that C++ does not provide: fused
// multiply-add in several rounding modes, 16-bit floating-point types, and
// approximate functions.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace stowage::testing::ptx {

/// Returns a b + c, rounded to odd. The exact sum is truncated to a double,
/// whose last bit is set if the sum was inexact. Rounding that double to a float
/// gives the same result as rounding the exact sum.
inline double FusedToOdd(float a, float b, float c) {
  const double product = static_cast<double>(a) * static_cast<double>(b);
  const double addend = static_cast<double>(c);
  const double sum = product + addend;
  const double back = sum - product;
  const double rest = (product - (sum - back)) + (addend - back);
  const auto bits = std::bit_cast<int64_t>(sum);
  const bool inexact = (rest > 0) | (rest < 0);
  const int64_t step = (rest > 0) == (sum > 0) ? 1 : -1;
  return std::bit_cast<double>(inexact && (bits & 1) == 0 ? bits + step : bits);
}
inline float FusedToZero(float a, float b, float c) {
  const double exact = FusedToOdd(a, b, c);
  const float x = static_cast<float>(exact);
  return std::fabs(static_cast<double>(x)) > std::fabs(exact)
             ? std::nextafter(x, 0.0f)
             : x;
}
inline float FusedDown(float a, float b, float c) {
  const double exact = FusedToOdd(a, b, c);
  const float x = static_cast<float>(exact);
  return static_cast<double>(x) > exact
             ? std::nextafter(x, -std::numeric_limits<float>::infinity())
             : x;
}

/// Implements cvt.rn.bf16.f32. NaN is 0x7FFF.
inline uint16_t ToBF16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return 0x7FFF;
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
/// Implements cvt.rn.f16.f32. NaN is 0x7FFF.
inline uint16_t ToF16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
  uint32_t half;
  if (size > 0x7F800000) return 0x7FFF;
  if (size >= 0x477FF000) {  // 65520, which rounds up to infinity
    half = 0x7C00;
  } else if (size < 0x38800000) {  // below 2^-14: multiples of 2^-24
    half = static_cast<uint32_t>(
        std::nearbyint(std::bit_cast<float>(size) * 0x1p24f));
  } else {
    half = (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}
inline float FromBF16(uint16_t x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x) << 16);
}
inline float FromF16(uint16_t x) {
  const uint32_t sign = (x & 0x8000u) << 16, exponent = x >> 10 & 31;
  const uint32_t fraction = x & 0x3FFu;
  if (exponent == 0) {
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -size : size;
  }
  if (exponent == 31) {
    return std::bit_cast<float>(fraction == 0 ? sign | 0x7F800000u
                                              : 0x7FFFFFFFu);
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

/// Returns -1, 0 or 1, chosen by a hash of the argument's bits.
inline int Wobble(float argument) {
  const uint32_t hash = std::bit_cast<uint32_t>(argument) * 0x9E3779B9u >> 30;
  return hash == 0 ? -1 : hash == 3 ? 1 : 0;
}
/// Returns `exact` as a float. If `exact` is not representable, the result may
/// be off by one unit in the last place.
inline float Approximate(double exact, float argument) {
  const float x = static_cast<float>(exact);
  if (static_cast<double>(x) == exact || x != x || std::isinf(x) || x == 0) {
    return x;
  }
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) +
                              static_cast<uint32_t>(Wobble(argument)));
}
/// Returns `x`, or a zero of the same sign if `x` is subnormal.
inline float Flush(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min()
             ? std::copysign(0.0f, x)
             : x;
}

/// Implements ex2.approx, whose relative error is at most 2^-22.
inline float Exp2(float x) {
  return Approximate(std::exp2(static_cast<double>(x)), x);
}
inline float Exp2Flushing(float x) { return Flush(Exp2(Flush(x))); }

/// Implements rcp.approx.ftz.f32, whose error is at most one unit in the last
/// place. The result is one of the two floats next to the exact value.
inline float ReciprocalFlushing(float x) {
  const float from = Flush(x);
  const double exact = 1 / static_cast<double>(from);
  float y = static_cast<float>(exact);
  if (std::isfinite(y) && static_cast<double>(y) != exact && Wobble(x) != 0) {
    const bool above = static_cast<double>(y) > exact;
    y = std::nextafter(y, above ? -std::numeric_limits<float>::infinity()
                                : std::numeric_limits<float>::infinity());
  }
  return Flush(y);
}

/// Implements rcp.approx.ftz.f64. It reads only the upper 32 bits of `x`, and
/// the lower 32 bits of the result are 0.
inline double ReciprocalFlushing(double x) {
  constexpr uint64_t kUpper = 0xFFFFFFFF'00000000;
  double from = std::bit_cast<double>(std::bit_cast<uint64_t>(x) & kUpper);
  if (std::fabs(from) < std::numeric_limits<double>::min()) {
    from = std::copysign(0.0, from);
  }
  const double y = 1 / from;
  if (std::fabs(y) < std::numeric_limits<double>::min()) {
    return std::copysign(0.0, y);
  }
  if (std::isinf(y) || y != y) return y;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(y) & kUpper);
}

/// Implements div.approx.f32. Its error is at most two units in the last place if |b| is in
/// [2^-126, 2^126]. If |b| is larger, the result is 0, or NaN if `a` is infinite.
inline float DivideApproximately(float a, float b) {
  if (std::fabs(b) > 0x1p126f && !std::isinf(b)) {
    return std::isinf(a) ? std::numeric_limits<float>::quiet_NaN()
                         : std::copysign(0.0f, a) * std::copysign(1.0f, b);
  }
  return Approximate(static_cast<double>(a) / static_cast<double>(b), a);
}

}  // namespace stowage::testing::ptx

#endif  // STOWAGE_TESTS_GPU_PTX_PTX_NUMBERS_H_
