#ifndef STOWAGE_MATH_RANDOM_H_
#define STOWAGE_MATH_RANDOM_H_

// Provides Philox4x32-10, a counter-based random number generator (Salmon, Moraes, Dror & Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", 2011). Uniform numbers, normal numbers and
// stochastic rounding are based on it. Philox is a pure function that maps a 128-bit counter and a
// 64-bit key to four 32-bit words. It has no state, so the random number of an element can be
// computed on any processor, and recomputed at any time.
//
// The key combines the seed and the id of the op that uses the numbers. The counter contains the
// training step and the index of the element, divided by 4.
//
//   const Philox4 words = Philox4x32(
//       RandomCounter(RandomStream::kUniform, step, quad), DropoutKey(seed, id));
//   const float y = Fraction<float, 24>(words.word[0]);  // of element 4 * quad
//
// Fractions are exact, so they have the same bits on every processor. The rounding of normal
// numbers depends on the processor's logarithm.

#include <cmath>
#include <cstdint>

#include "math/portable.h"
#include "math/small_floats.h"
#include "math/trigonometry.h"

namespace stowage::math {

inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53;
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9;  // golden ratio
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
inline constexpr int kPhiloxRounds = 10;

struct Philox4 {
  uint32_t word[4];
};
struct PhiloxKey {
  uint32_t word[2];
};

/// Returns the four random words for a counter and a key.
STOWAGE_HOST_DEVICE inline Philox4 Philox4x32(Philox4 counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultiplier0} * counter.word[0];
    const uint64_t product1 = uint64_t{kPhiloxMultiplier1} * counter.word[2];
    counter = {
        {static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key.word[0],
         static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key.word[1],
         static_cast<uint32_t>(product0)}};
    key.word[0] += kPhiloxWeyl0;
    key.word[1] += kPhiloxWeyl1;
  }
  return counter;
}

/// Returns the key of the op with this id, which is `seed` with `id` mixed into its upper half. Ops
/// other than dropout use it, too. For the same seed, ids below 2^32 give distinct keys.
STOWAGE_HOST_DEVICE inline PhiloxKey DropoutKey(int64_t seed, int64_t id) {
  const uint64_t bits = static_cast<uint64_t>(seed);
  const uint32_t spread = static_cast<uint32_t>(id) * 0x9E3779B1u;  // odd
  return {{static_cast<uint32_t>(bits),
           static_cast<uint32_t>(bits >> 32) ^ spread}};
}

/// Returns the counter for elements 4 * `quad` to 4 * `quad` + 3 in a step. Element 4 * quad + i
/// uses word i of Philox4x32's result.
STOWAGE_HOST_DEVICE inline Philox4 DropoutCounter(int64_t step, int64_t quad) {
  const uint64_t s = static_cast<uint64_t>(step);
  const uint64_t q = static_cast<uint64_t>(quad);
  return {{static_cast<uint32_t>(q), static_cast<uint32_t>(q >> 32),
           static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32)}};
}

/// Returns the threshold of dropout with probability `p`, which must be in [0, 1). An element is
/// kept if its word is at least the threshold, which is equivalent to word / 2^32 >= p.
inline uint64_t DropoutThreshold(double p) {
  return static_cast<uint64_t>(std::ceil(p * 4294967296.0));
}

/// The use of random numbers, which gives the same key and step different counters for different
/// uses. The value is stored in the two highest bits of the step. They are 0 for dropout, so steps
/// must be below 2^62.
enum class RandomStream : uint32_t { kRounding = 1, kUniform = 2, kNormal = 3 };

/// Returns the counter for elements 4 * `quad` to 4 * `quad` + 3 in a step.
STOWAGE_HOST_DEVICE inline Philox4 RandomCounter(RandomStream stream,
                                                 int64_t step, int64_t quad) {
  Philox4 counter = DropoutCounter(step, quad);
  counter.word[3] ^= static_cast<uint32_t>(stream) << 30;
  return counter;
}

/// Returns the upper kBits bits of `word` as a fraction in [0, 1). N must represent kBits bits
/// exactly.
template <typename N, int kBits>
STOWAGE_HOST_DEVICE inline N Fraction(uint32_t word) {
  constexpr N kUnit = N(1) / static_cast<N>(uint64_t{1} << kBits);
  return static_cast<N>(word >> (32 - kBits)) * kUnit;
}

/// Computes two independent normal numbers from two words (Box & Muller 1958). Only 24 bits of each
/// word are used, so the magnitude of the numbers is at most 5.8.
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

/// Returns the words for stochastic rounding of elements 4 * `quad` to 4 * `quad` + 3, one word for
/// each element:
///
///   const uint32_t word = RoundingWords(key, step, element / 4).word[element % 4];
///   m = StochasticBFloat16(new_m, word & 0xFFFF);
///   v = StochasticBFloat16(new_v, word >> 16);
STOWAGE_HOST_DEVICE inline Philox4 RoundingWords(PhiloxKey key, int64_t step,
                                                 int64_t quad) {
  return Philox4x32(RandomCounter(RandomStream::kRounding, step, quad), key);
}

/// Rounds x to one of the two neighboring bf16 numbers, with probabilities such that the expected
/// value is x (Gupta et al. 2015, "Deep learning with limited numerical precision"). A moving
/// average thus accumulates changes below half of its last bit, which rounding to nearest would
/// discard. `random` must be uniform in [0, 2^16). x is rounded away from zero if the sum of its
/// lower 16 bits and `random` is at least 2^16. Infinity and NaN are preserved.
STOWAGE_HOST_DEVICE inline uint16_t StochasticBFloat16(float x,
                                                       uint32_t random) {
  const uint32_t bits = FloatBits(x);
  if ((bits & 0x7FFFFFFF) >= 0x7F800000) return FloatToBFloat16(x);
  return static_cast<uint16_t>((bits + random) >> 16);
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_RANDOM_H_
