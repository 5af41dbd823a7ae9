#ifndef STOWAGE_MATH_ROPE_H_
#define STOWAGE_MATH_ROPE_H_

// The angles of rotary position embeddings (Su et al. 2021), computed in double
// without the whole turns, so that in f32 they have the digits at position 100,000
// that they have at position 1.
//
//   const double turns = math::RopeTurns(10000, 64, pair);  // once
//   const double angle = math::RopeAngle(position, turns);

#include <cmath>
#include <cstdint>

#include "math/portable.h"

namespace stowage::math {

/// The turns of pair `pair` from one position to the next, where `dims` elements
/// turn: base^(-2 pair / dims) / (2 pi).
inline double RopeTurns(double base, int64_t dims, int64_t pair) {
  constexpr double kTwoPi = 6.283185307179586477;
  const double power =
      -2 * static_cast<double>(pair) / static_cast<double>(dims);
  return std::pow(base, power) / kTwoPi;
}

/// position * turns as an angle in [-pi, pi].
STOWAGE_HOST_DEVICE inline double RopeAngle(int32_t position, double turns) {
  constexpr double kTwoPi = 6.283185307179586477;
  const double turned = static_cast<double>(position) * turns;
  return (turned - ::rint(turned)) * kTwoPi;
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_ROPE_H_
