#ifndef STOWAGE_MATH_TRIGONOMETRY_H_
#define STOWAGE_MATH_TRIGONOMETRY_H_

// Computes sin and cos of any float, and the angles of rotary position embeddings. Every operation
// of Sin and Cos is exact or rounded once (fmaf), so all processors compute the same bits.
// (RopeTurns calls std::pow, whose last bits depend on the C library.) The code uses no arrays,
// because GPUs keep indexed arrays in local memory. (CUDA's sinf and cosf use one.)
//
//   const float y = math::Sin(1e30f);
//   const double turns = math::RopeTurns(10000, 64, pair);  // once
//   const double angle = math::RopeAngle(position, turns);
//
// The angle is reduced to [-pi/4, pi/4] by subtracting whole quarter turns. Below 2^16, pi/2 is
// represented as the sum of three floats (Cody & Waite 1980). From 2^16 on, the angle is multiplied
// by the relevant bits of 1/(2 pi) (Payne & Hanek 1983). The polynomials for the reduced angle are
// from sinf.c of Cephes (Moshier 1989). Over all floats, the error of sin and cos is at most 1.6
// units in the last place.

#include <cmath>
#include <cstdint>

#include "math/portable.h"
#include "math/small_floats.h"

namespace stowage::math {

namespace internal {

/// An angle x in reduced form: x = quarters * pi/2 + angle, up to whole turns.
struct ReducedAngle {
  float angle = 0;
  uint32_t quarters = 0;
};

/// Returns bits 32 i - 31 to 32 i after the binary point of 1/(2 pi), or 0 for i = 0. `i` must be
/// at most 7.
STOWAGE_HOST_DEVICE constexpr uint64_t InverseTurnBits(uint32_t i) {
  return i == 0   ? 0
         : i == 1 ? 0x28BE60DB
         : i == 2 ? 0x9391054A
         : i == 3 ? 0x7F09D5F4
         : i == 4 ? 0x7D4D3770
         : i == 5 ? 0x36D8A566
         : i == 6 ? 0x4F10E410
                  : 0x7F9458EA;
}

/// Reduces a finite x with a magnitude of at least 2^16. Let |x| = m 2^(e - 32), where m has 32
/// bits. The number of turns, |x| / (2 pi), is computed modulo 1 and to 64 bits. For this, 96 bits
/// of 1/(2 pi) are sufficient, beginning with bit e - 31.
STOWAGE_HOST_DEVICE inline ReducedAngle ReduceLargeAngle(float x) {
  const uint32_t bits = FloatBits(x);
  const uint64_t m = (bits << 8) | 0x80000000;
  const uint32_t e = ((bits >> 23) & 0xFF) - 126;  // in [17, 128]
  const auto word = [e](uint32_t k) {
    const uint32_t i = e / 32 + k;
    const uint64_t two = InverseTurnBits(i) << 32 | InverseTurnBits(i + 1);
    return two << e % 32 >> 32;
  };
  // In units of 2^-64 turns. The overflow is a number of whole turns.
  const uint64_t turn = (m * word(0) << 32) + m * word(1) + (m * word(2) >> 32);
  const uint64_t quarters = (turn + (uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<int64_t>(turn - (quarters << 62));
  const auto angle = static_cast<float>(static_cast<double>(rest) *
                                        0x1.921FB54442D18p-62);  // pi/2 2^-62
  const auto count = static_cast<uint32_t>(quarters);
  return x < 0 ? ReducedAngle{-angle, 0 - count} : ReducedAngle{angle, count};
}

STOWAGE_HOST_DEVICE inline ReducedAngle ReduceAngle(float x) {
  const float size = ::fabsf(x);
  if (size < 65536.0f) {
    const float quarters = ::rintf(x * 0.636619772f);    // 2/pi
    float angle = ::fmaf(-quarters, 0x1.921FB6p+0f, x);  // exact
    angle = ::fmaf(-quarters, -0x1.777A5Cp-25f, angle);
    angle = ::fmaf(-quarters, -0x1.EE59DAp-50f, angle);
    return {angle, static_cast<uint32_t>(static_cast<int32_t>(quarters))};
  }
  if (!(size < INFINITY)) return {x - x, 0};  // NaN
  return ReduceLargeAngle(x);
}

/// Returns sin(quarters * pi/2 + angle).
STOWAGE_HOST_DEVICE inline float SinOfReduced(float angle, uint32_t quarters) {
  const float square = angle * angle;
  float sin = ::fmaf(square, -1.9515295891e-4f, 8.3321608736e-3f);
  sin = ::fmaf(square, sin, -1.6666654611e-1f);
  sin = ::fmaf(angle * square, sin, angle);
  float cos = ::fmaf(square, 2.443315711809948e-5f, -1.388731625493765e-3f);
  cos = ::fmaf(square, cos, 4.166664568298827e-2f);
  cos = ::fmaf(square * square, cos, ::fmaf(square, -0.5f, 1.0f));
  const float y = (quarters & 1) != 0 ? cos : sin;
  return (quarters & 2) != 0 ? -y : y;
}

}  // namespace internal

/// Sin and Cos return the sine and the cosine of x, which is in radians. The result is NaN if x is
/// infinite.
STOWAGE_HOST_DEVICE inline float Sin(float x) {
  if (::fabsf(x) < 0x1p-12f) return x;  // error at most 0.2 ulp; keeps -0
  const internal::ReducedAngle reduced = internal::ReduceAngle(x);
  return internal::SinOfReduced(reduced.angle, reduced.quarters);
}
STOWAGE_HOST_DEVICE inline float Cos(float x) {
  const internal::ReducedAngle reduced = internal::ReduceAngle(x);
  return internal::SinOfReduced(reduced.angle, reduced.quarters + 1);
}

/// Returns the angle in turns by which rotary embeddings (Su et al. 2021) rotate pair `pair` of
/// `dims` elements from one position to the next: base^(-2 pair / dims) / (2 pi).
inline double RopeTurns(double base, int64_t dims, int64_t pair) {
  constexpr double kTwoPi = 6.283185307179586477;
  const double power =
      -2 * static_cast<double>(pair) / static_cast<double>(dims);
  return std::pow(base, power) / kTwoPi;
}

/// Returns `position` * `turns`, without whole turns, as an angle in [-pi, pi]. `turns` is the
/// result of RopeTurns. Whole turns are subtracted in double precision, so that the angle is as
/// precise in f32 at position 100,000 as at position 1.
STOWAGE_HOST_DEVICE inline double RopeAngle(int32_t position, double turns) {
  constexpr double kTwoPi = 6.283185307179586477;
  const double turned = static_cast<double>(position) * turns;
  return (turned - ::rint(turned)) * kTwoPi;
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_TRIGONOMETRY_H_
