#ifndef STOWAGE_MATH_PHILOX_H_
#define STOWAGE_MATH_PHILOX_H_

// Philox4x32-10, a counter-based random generator (Salmon, Moraes, Dror & Shaw,
// "Parallel random numbers: as easy as 1, 2, 3", 2011): a pure function from a
// 128-bit counter and a 64-bit key to four 32-bit words. Nothing is stored
// between calls, so any element's number can be had on any processor at any
// time, again and again.
//
// Dropout names its numbers so: the key holds the seed and the op's id, the
// counter the step and the element; see DropoutKey and DropoutCounter.
//
//   Philox4 words = math::Philox4x32(counter, key);

#include <cmath>
#include <cstdint>

#include "math/portable.h"

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

/// The four random words of a counter.
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

/// The key of a dropout: the seed, with the id spread over its upper half. Ids
/// below 2^32 give distinct keys for one seed.
STOWAGE_HOST_DEVICE inline PhiloxKey DropoutKey(int64_t seed, int64_t id) {
  const uint64_t bits = static_cast<uint64_t>(seed);
  const uint32_t spread = static_cast<uint32_t>(id) * 0x9E3779B1u;  // odd
  return {{static_cast<uint32_t>(bits),
           static_cast<uint32_t>(bits >> 32) ^ spread}};
}

/// The counter of elements 4 * `quad` to 4 * `quad` + 3 at a step; element
/// 4 * quad + i takes word i.
STOWAGE_HOST_DEVICE inline Philox4 DropoutCounter(int64_t step, int64_t quad) {
  const uint64_t s = static_cast<uint64_t>(step);
  const uint64_t q = static_cast<uint64_t>(quad);
  return {{static_cast<uint32_t>(q), static_cast<uint32_t>(q >> 32),
           static_cast<uint32_t>(s), static_cast<uint32_t>(s >> 32)}};
}

/// An element is kept when its word is at least this: when word / 2^32 >= p,
/// exactly. p in [0, 1).
inline uint64_t DropoutThreshold(double p) {
  return static_cast<uint64_t>(std::ceil(p * 4294967296.0));
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_PHILOX_H_
