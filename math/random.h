#ifndef STOWAGE_MATH_RANDOM_H_
#define STOWAGE_MATH_RANDOM_H_

// Random numbers out of the words of Philox (math/philox.h). Fractions are exact,
// and so the same bits on every processor; normal numbers round as its logarithm
// does.
//
//   const Philox4 words = Philox4x32(
//       RandomCounter(RandomStream::kUniform, step, quad), DropoutKey(seed, id));
//   float y = Fraction<float, 24>(words.word[0]);   // of element 4 * quad

#include <cmath>
#include <cstdint>

#include "math/philox.h"
#include "math/portable.h"
#include "math/trigonometry.h"

namespace stowage::math {

/// What tells counters of one key apart: two bits that no step reaches. Dropout's
/// are 0; kRounding is for math/stochastic_rounding.h.
enum class RandomStream : uint32_t { kRounding = 1, kUniform = 2, kNormal = 3 };

/// The counter of elements 4 * `quad` to 4 * `quad` + 3 at a step.
STOWAGE_HOST_DEVICE inline Philox4 RandomCounter(RandomStream stream,
                                                 int64_t step, int64_t quad) {
  Philox4 counter = DropoutCounter(step, quad);
  counter.word[3] ^= static_cast<uint32_t>(stream) << 30;
  return counter;
}

/// The word's upper `kBits`, as many as N holds, as a fraction: in [0, 1).
template <typename N, int kBits>
STOWAGE_HOST_DEVICE inline N Fraction(uint32_t word) {
  constexpr N kUnit = N(1) / static_cast<N>(uint64_t{1} << kBits);
  return static_cast<N>(word >> (32 - kBits)) * kUnit;
}

/// Two independent normal numbers (Box & Muller 1958) of two words. Of 24 bits
/// each: neither is farther than 5.8 from 0.
STOWAGE_HOST_DEVICE inline void NormalPair(uint32_t a, uint32_t b, float* x,
                                           float* y) {
  const float u = static_cast<float>((a >> 8) + 1) * 0x1p-24f;  // in (0, 1]
  const float radius = ::sqrtf(-2 * ::logf(u));
  const float angle = Fraction<float, 24>(b) * 6.283185307f;
  *x = radius * Cos(angle);
  *y = radius * Sin(angle);
}
inline void NormalPair(uint32_t a, uint32_t b, double* x, double* y) {
  const double radius = std::sqrt(-2 * std::log(((a >> 8) + 1) * 0x1p-24));
  const double angle = Fraction<double, 24>(b) * 6.283185307179586477;
  *x = radius * std::cos(angle);
  *y = radius * std::sin(angle);
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_RANDOM_H_
