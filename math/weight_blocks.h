#ifndef STOWAGE_MATH_WEIGHT_BLOCKS_H_
#define STOWAGE_MATH_WEIGHT_BLOCKS_H_

// The block formats in which files of weights hold numbers (ir/weight_types.def), one
// function each: from the bytes of a block to its numbers.
//
//   float row[32];
//   math::Q4_1(bytes, [&](int i, float number) { row[i] = number; });
//
// Blocks lie one after the other, without gaps, little-endian; d and m are f16, and
// q[i] is what the block has for its number i. A nibble is four bits of a byte, the low
// one first.
//
//   type  numbers bytes  fields, in this order                       number i
//   Q4_0       32    18  d, nibbles[16]                              d (q - 8)
//   Q4_1       32    20  d, m, nibbles[16]                           d q + m
//   Q5_0       32    22  d, high[4], nibbles[16]                     d (q - 16)
//   Q5_1       32    24  d, m, high[4], nibbles[16]                  d q + m
//   Q8_0       32    34  d, i8 q[32]                                 d q
//   Q4_K      256   144  d, m, scales[12], nibbles[128]              d s q - m t
//   Q5_K      256   176  d, m, scales[12], high[32], nibbles[128]    d s q - m t
//   Q6_K      256   210  nibbles[128], high[64], i8 scales[16], d    d s (q - 32)
//
// In blocks of 32, byte j of the nibbles holds number j in its low half and number
// j + 16 in its high half; bit i of `high`, a word of 32 bits, is the fifth bit of
// number i. In Q4_K and Q5_K, 64 numbers at a time have 32 bytes of nibbles, the first
// 32 of them in the low halves and the others in the high ones; bit g of byte j of
// `high` is the fifth bit of number j of the g-th 32. Each 32 numbers have a scale s and
// a minimum t of six bits: those of the first four are the low six bits of scales[g] and
// scales[g + 4]; those of the other four have their low four bits in the low and the
// high half of scales[g + 4], their upper two at the top of scales[g - 4] and scales[g].
// In Q6_K, 128 numbers at a time have 64 bytes of nibbles, again low halves first, and 32
// bytes of `high`, two bits for each 32 numbers; 16 numbers share a scale.
//
// Every number is the float nearest to what the block says, as all products above are
// exact, with and without fused multiply-adds.

#include <cstdint>
#include <cstring>

#include "math/portable.h"
#include "math/small_floats.h"

namespace stowage::math {

namespace internal {

template <typename T>
STOWAGE_HOST_DEVICE inline T Load(const uint8_t* from) {
  T value;
  memcpy(&value, from, sizeof(value));
  return value;
}

STOWAGE_HOST_DEVICE inline float LoadHalf(const uint8_t* from) {
  return HalfToFloat(Load<uint16_t>(from));
}

// 32 numbers d q + m of 16 bytes of nibbles.
template <typename Put>
STOWAGE_HOST_DEVICE inline void Nibbles(const uint8_t* nibbles, float d,
                                        float m, Put put) {
  for (int j = 0; j < 16; ++j) {
    put(j, d * static_cast<float>(nibbles[j] & 15) + m);
  }
  for (int j = 0; j < 16; ++j) {
    put(j + 16, d * static_cast<float>(nibbles[j] >> 4) + m);
  }
}

// The same with a fifth bit.
template <typename Put>
STOWAGE_HOST_DEVICE inline void HighNibbles(const uint8_t* nibbles,
                                            uint32_t high, float d, float m,
                                            Put put) {
  for (int j = 0; j < 16; ++j) {
    const int q = (nibbles[j] & 15) | static_cast<int>(high >> j & 1u) << 4;
    put(j, d * static_cast<float>(q) + m);
  }
  for (int j = 0; j < 16; ++j) {
    const int q = (nibbles[j] >> 4) | static_cast<int>(high >> (j + 16) & 1u)
                                          << 4;
    put(j + 16, d * static_cast<float>(q) + m);
  }
}

struct ScaleAndMinimum {
  float scale, minimum;
};
// Of the g-th 32 numbers of a block of Q4_K or Q5_K.
STOWAGE_HOST_DEVICE inline ScaleAndMinimum ScaleOf(const uint8_t* scales,
                                                   int g) {
  if (g < 4) {
    return {static_cast<float>(scales[g] & 63),
            static_cast<float>(scales[g + 4] & 63)};
  }
  const int both = scales[g + 4];
  return {static_cast<float>((both & 15) | (scales[g - 4] >> 6 << 4)),
          static_cast<float>((both >> 4) | (scales[g] >> 6 << 4))};
}

// `high` is null where no number has a fifth bit.
template <typename Put>
STOWAGE_HOST_DEVICE inline void KNibbles(const uint8_t* from,
                                         const uint8_t* high,
                                         const uint8_t* nibbles, Put put) {
  const float d = LoadHalf(from), m = LoadHalf(from + 2);
  for (int g = 0; g < 8; ++g) {
    const ScaleAndMinimum of_group = ScaleOf(from + 4, g);
    const float ds = d * of_group.scale, mt = m * of_group.minimum;
    const uint8_t* const bytes = nibbles + g / 2 * 32;
    const int shift = g % 2 * 4;
    for (int j = 0; j < 32; ++j) {
      int q = bytes[j] >> shift & 15;
      if (high != nullptr) q |= (high[j] >> g & 1) << 4;
      put(32 * g + j, ds * static_cast<float>(q) - mt);
    }
  }
}

}  // namespace internal

// `from` is the bytes of one block; put(i, number) is called for each of its numbers.

template <typename Put>
STOWAGE_HOST_DEVICE inline void F32(const uint8_t* from, Put put) {
  put(0, internal::Load<float>(from));
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void F16(const uint8_t* from, Put put) {
  put(0, internal::LoadHalf(from));
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void BF16(const uint8_t* from, Put put) {
  put(0, BFloat16ToFloat(internal::Load<uint16_t>(from)));
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void Q4_0(const uint8_t* from, Put put) {
  const float d = internal::LoadHalf(from);
  internal::Nibbles(from + 2, d, -8 * d, put);
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void Q4_1(const uint8_t* from, Put put) {
  internal::Nibbles(from + 4, internal::LoadHalf(from),
                    internal::LoadHalf(from + 2), put);
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void Q5_0(const uint8_t* from, Put put) {
  const float d = internal::LoadHalf(from);
  internal::HighNibbles(from + 6, internal::Load<uint32_t>(from + 2), d,
                        -16 * d, put);
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void Q5_1(const uint8_t* from, Put put) {
  internal::HighNibbles(from + 8, internal::Load<uint32_t>(from + 4),
                        internal::LoadHalf(from), internal::LoadHalf(from + 2),
                        put);
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void Q8_0(const uint8_t* from, Put put) {
  const float d = internal::LoadHalf(from);
  for (int j = 0; j < 32; ++j) {
    put(j, d * static_cast<float>(static_cast<int8_t>(from[2 + j])));
  }
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void Q4_K(const uint8_t* from, Put put) {
  internal::KNibbles(from, nullptr, from + 16, put);
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void Q5_K(const uint8_t* from, Put put) {
  internal::KNibbles(from, from + 16, from + 48, put);
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void Q6_K(const uint8_t* from, Put put) {
  const float d = internal::LoadHalf(from + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* const nibbles = from + half * 64;
    const uint8_t* const high = from + 128 + half * 32;
    for (int g = 0; g < 4; ++g) {
      const uint8_t* const scales = from + 192 + half * 8 + g * 2;
      const uint8_t* const bytes = nibbles + g % 2 * 32;
      const int shift = g / 2 * 4;
      for (int j = 0; j < 32; ++j) {
        const int q = (bytes[j] >> shift & 15) | (high[j] >> (2 * g) & 3) << 4;
        const float ds =
            d * static_cast<float>(static_cast<int8_t>(scales[j / 16]));
        put(128 * half + 32 * g + j, ds * static_cast<float>(q - 32));
      }
    }
  }
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_WEIGHT_BLOCKS_H_
