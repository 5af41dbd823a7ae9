#ifndef STOWAGE_MATH_STOCHASTIC_ROUNDING_H_
#define STOWAGE_MATH_STOCHASTIC_ROUNDING_H_

// Floats rounded to bf16 by chance: to one of the two neighbours, to the nearer one
// more often, so that on average it is the float (Gupta et al. 2015, "Deep learning
// with limited numerical precision"). A moving average keeps what it gains in steps
// smaller than half its last bit, which rounding to the nearest would take from it.
//
//   const PhiloxKey key = DropoutKey(seed, id);
//   const uint32_t word = RoundingWords(key, step, element / 4).word[element % 4];
//   m = StochasticBFloat16(new_m, word & 0xFFFF);
//   v = StochasticBFloat16(new_v, word >> 16);

#include <cstdint>

#include "math/philox.h"
#include "math/portable.h"
#include "math/random.h"
#include "math/small_floats.h"

namespace stowage::math {

/// The words of elements 4 * `quad` to 4 * `quad` + 3: one for each.
STOWAGE_HOST_DEVICE inline Philox4 RoundingWords(PhiloxKey key, int64_t step,
                                                 int64_t quad) {
  return Philox4x32(RandomCounter(RandomStream::kRounding, step, quad), key);
}

/// x is the lower neighbour and a part of 2^16 of the distance to the upper one, both
/// away from zero; it goes up if that part and `random`, below 2^16, are at least 2^16.
/// Infinity and NaN stay what they are.
STOWAGE_HOST_DEVICE inline uint16_t StochasticBFloat16(float x,
                                                       uint32_t random) {
  const uint32_t bits = FloatBits(x);
  if ((bits & 0x7FFFFFFF) >= 0x7F800000) return FloatToBFloat16(x);
  return static_cast<uint16_t>((bits + random) >> 16);
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_STOCHASTIC_ROUNDING_H_
