#ifndef STOWAGE_MATH_SPLIT_MASTER_H_
#define STOWAGE_MATH_SPLIT_MASTER_H_

// A float weight in two parts: a bf16 number, which the model computes with, and
// a 16-bit integer, which the optimizer adds to get the float back exactly.
// Together they take the float's own four bytes, where a float master beside a
// bf16 weight would take six.
//
// With the float's bits as an integer, the bf16 part is its upper half rounded
// to the nearest, ties away from zero, and the integer is what that rounding
// left over: below 2^15 where it rounded down, at least -2^15 where it rounded
// up. It always fits, for every finite float. (Ties to even would leave 2^15 at
// the ties that go down, one too many.)
//
// The finite floats from 0x1.FFp127 on round up to infinity, as in any rounding
// to nearest, and their integer is negative; so an infinite bf16 part stands for
// infinity where the integer is 0, and for a finite float where it is not. NaN
// becomes a quiet NaN, its integer 0.
//
// A shorter integer of 8 bits, 256 times as large, keeps the upper 24 bits of the float,
// rounded to the nearest: a relative error of 2^-16 at most, in three bytes (as the
// splits of Gonzalez Ortiz et al. 2026, "FlashOptim", whose parts are of the distance to
// the next bf16).
//
//   const math::SplitMaster parts = math::Split(0.1f);
//   math::Join(parts) == 0.1f;  // bit for bit
//   math::Join({weight, 0}) == math::BFloat16ToFloat(weight);

#include <cstdint>

#include "math/portable.h"
#include "math/small_floats.h"

namespace stowage::math {

struct SplitMaster {
  uint16_t weight;  // the bits of a bf16
  int16_t delta;    // bits of the float - (weight << 16)
};

/// The parts of `master`.
STOWAGE_HOST_DEVICE inline SplitMaster Split(float master) {
  const uint32_t bits = FloatBits(master);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {FloatToBFloat16(master), 0};
  const auto weight = static_cast<uint16_t>((bits + 0x8000) >> 16);
  // The lower half as a signed number is the distance to the rounded upper half.
  return {weight, static_cast<int16_t>(static_cast<uint16_t>(bits))};
}

/// The float whose parts these are. Bits are added without regard to what they
/// mean, so a weight that was replaced wants its delta set to 0.
STOWAGE_HOST_DEVICE inline float Join(SplitMaster parts) {
  const auto delta = static_cast<uint32_t>(int32_t{parts.delta});
  return BitsFloat((uint32_t{parts.weight} << 16) + delta);
}

struct ShortSplitMaster {
  uint16_t weight;  // the bits of a bf16
  uint8_t
      delta;  // of a signed byte: (bits of the float - (weight << 16)) / 256
};

/// The parts of the float of 24 bits that is nearest to `master`, ties away from zero.
STOWAGE_HOST_DEVICE inline ShortSplitMaster SplitShort(float master) {
  const uint32_t bits = FloatBits(master);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {FloatToBFloat16(master), 0};
  const SplitMaster parts = Split(BitsFloat((bits + 0x80) & 0xFFFFFF00));
  return {parts.weight, static_cast<uint8_t>(parts.delta / 256)};
}

/// The float whose parts these are.
STOWAGE_HOST_DEVICE inline float JoinShort(ShortSplitMaster parts) {
  const auto delta =
      static_cast<int16_t>(static_cast<int8_t>(parts.delta) * 256);
  return Join(SplitMaster{parts.weight, delta});
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_SPLIT_MASTER_H_
