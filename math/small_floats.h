#ifndef STOWAGE_MATH_SMALL_FLOATS_H_
#define STOWAGE_MATH_SMALL_FLOATS_H_

// Converts between float and the bit patterns of the 16-bit formats f16 and bf16. Conversions to 16
// bits round to nearest, with ties to even (IEEE 754), and preserve NaN. Numbers that are too large
// become infinity.
//
//   math::FloatToHalf(65504.0f) == 0x7BFF;  math::HalfToFloat(0x3C00) == 1.0f

#include <cstdint>
#include <cstring>

#include "math/portable.h"

namespace stowage::math {

STOWAGE_HOST_DEVICE inline uint32_t FloatBits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
STOWAGE_HOST_DEVICE inline float BitsFloat(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

/// BFloat16ToFloat and FloatToBFloat16 convert between float and bf16, which is the upper half of a
/// float.
STOWAGE_HOST_DEVICE inline float BFloat16ToFloat(uint16_t bits) {
  return BitsFloat(uint32_t{bits} << 16);
}
STOWAGE_HOST_DEVICE inline uint16_t FloatToBFloat16(float x) {
  const uint32_t bits = FloatBits(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) {  // NaN becomes a quiet NaN
    return static_cast<uint16_t>((bits >> 16) | 0x0040);
  }
  const uint32_t odd = (bits >> 16) & 1;  // a tie rounds to the even neighbor
  return static_cast<uint16_t>((bits + 0x7FFF + odd) >> 16);
}

/// HalfToFloat and FloatToHalf convert between float and f16, which has 1 sign bit, 5 exponent bits
/// (bias 15) and 10 fraction bits.
STOWAGE_HOST_DEVICE inline float HalfToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1F;
  const uint32_t fraction = bits & 0x3FF;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return BitsFloat(sign | FloatBits(magnitude));
  }
  if (exponent == 0x1F) return BitsFloat(sign | 0x7F800000 | (fraction << 13));
  return BitsFloat(sign | ((exponent + 112) << 23) | (fraction << 13));
}
STOWAGE_HOST_DEVICE inline uint16_t FloatToHalf(float x) {
  const uint32_t bits = FloatBits(x);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
  // Numbers from 65520 on, halfway from the largest f16 to the next power of two, become infinity.
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);
  if (magnitude < 0x38800000) {  // below 2^-14: a multiple of 2^-24
    // After adding 0.5, the fraction of the sum contains exactly these bits, rounded to even.
    const float sum = BitsFloat(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (FloatBits(sum) - 0x3F000000));
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  const uint32_t rounded = magnitude - (112u << 23) + 0xFFF + odd;
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

/// Returns `x` rounded to odd (Boldo & Melquiond 2008): if a float cannot represent `x`, it is the
/// neighbor whose last bit is 1. Rounding the result to f16 or bf16 therefore gives the same number
/// as rounding the double directly.
STOWAGE_HOST_DEVICE inline float RoundToOddFloat(double x) {
  const float nearest = static_cast<float>(x);
  const double back = nearest;
  if (back == x || x != x) return nearest;
  uint32_t bits = FloatBits(nearest);
  // If the conversion rounded away from zero, step back towards zero.
  const bool away = (x > 0) == (back > x);
  if (away) bits -= 1;
  return BitsFloat(bits | 1);
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_SMALL_FLOATS_H_
