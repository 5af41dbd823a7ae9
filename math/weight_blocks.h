#ifndef STOWAGE_MATH_WEIGHT_BLOCKS_H_
#define STOWAGE_MATH_WEIGHT_BLOCKS_H_

// Decodes the quantized block formats of weight files (ir/weight_types.def). Each format has a
// function that converts the bytes of a block to numbers.
//
//   float row[32];
//   math::Q4_1(bytes, [&](int i, float number) { row[i] = number; });
//
// Blocks are contiguous and little-endian. In the table below, d and m are f16, q is the integer
// stored for number i, and s and t are its scale and minimum. A nibble is half of a byte. Of the
// two nibbles of a byte, the low half has the lower index. A pair is two bits of a byte.
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
//   Q2_K      256    84  scales[16], pairs[64], d, m                 d s q - m t
//   Q3_K      256   110  high[32], pairs[64], scales[12], d          d (s - 32) (q - 4)
//   IQ4_NL     32    18  d, nibbles[16]                              d kLevels[q]
//   IQ4_XS    256   136  d, u16 scales_high, scales[4], nibbles[128] d (s - 32) kLevels[q]
//   TQ1_0     256    54  digits[52], d                               d (q - 1)
//   TQ2_0     256    66  pairs[64], d                                d (q - 1)
//   MXFP4      32    17  exponent e, nibbles[16]                     2^(e - 127) e2m1(q)
//
// Blocks of 32 numbers: byte j of the nibbles contains number j in its low half and number j + 16
// in its high half. Bit i of `high`, a 32-bit word, is the fifth bit of number i.
//
// Blocks of 256 numbers: below, group g consists of the numbers 32 g to 32 g + 31, and number j of
// a group is its j-th number, counting from 0.
//
// Q4_K, Q5_K: Each pair of groups has 32 bytes of nibbles, with the first group in the low halves
// and the second one in the high halves. Bit g of byte j of `high` is the fifth bit of number j of
// group g. Each group has a scale s and a minimum t of six bits. For g < 4, s is the low six bits
// of scales[g], and t the low six bits of scales[g + 4]. For g >= 4, the low four bits of s are the
// low half of scales[g + 4], and its upper two bits are the upper two bits of scales[g - 4]. The
// low four bits of t are the high half of scales[g + 4], and its upper two bits are the upper two
// bits of scales[g].
//
// Q6_K: Each 128 numbers have 64 bytes of nibbles, with the first 64 numbers in the low halves and
// the others in the high halves. They also have 32 bytes of `high`, in which bits 2g and 2g + 1 of
// byte j are the upper two bits of number j of the g-th group of these 128 numbers. Each 16 numbers
// share a scale.
//
// Q2_K, Q3_K, TQ2_0: Each 128 numbers have 32 bytes of `pairs`. Bits 2g and 2g + 1 of byte j are q
// of number j of the g-th group of these 128 numbers, or the low two bits of q in Q3_K.
//
// Q2_K: Each 16 numbers have a byte of `scales`, with the scale in the low half and the minimum in
// the high half.
//
// Q3_K: Bit g of byte j of `high` is the third bit of number j of group g. Each 16 numbers have a
// scale of six bits. The low four bits of all scales are in scales[0 .. 8): scales 0 to 7 in the
// low halves of the bytes, and scales 8 to 15 in the high halves. The upper two bits are in
// scales[8 .. 12): scales 0 to 3 in the lowest pairs of the four bytes, scales 4 to 7 in the next
// pairs, and so on.
//
// IQ4_XS: The scale of group g has its low four bits in nibble g of `scales`, and its upper two
// bits in bits 2g and 2g + 1 of scales_high. The nibbles of a group are laid out as in a block of
// 32.
//
// TQ1_0: A byte contains five base-3 digits, the most significant one first. The digits form an
// integer v, and the byte is 256 v / 243, rounded up. Each digit is q of a number. If a byte has
// only four numbers, its fifth digit is 0. There are three runs of bytes: 32 bytes with five
// numbers each, 16 bytes with five numbers each, and 4 bytes with four numbers each. The order of a
// run's numbers is: those of the first digits of all its bytes, then those of the second digits,
// and so on.
//
// MXFP4: e2m1 is a float with a sign bit, two exponent bits and one mantissa bit (OCP Microscaling
// Formats 1.0).
//
// Every decoded number is the float nearest to the formula in the table. All products above are
// exact, with or without fused multiply-adds.

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

// Decodes 32 numbers d q + m from 16 bytes of nibbles.
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

// Decodes 32 numbers d q + m from 16 bytes of nibbles, with the fifth bits of q in `high`.
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
// Returns the scale and minimum of group g of a Q4_K or Q5_K block.
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

// Decodes a Q5_K block, or a Q4_K block if `high` is null.
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

// Returns kLevels[q], one of the 16 values of IQ4_NL and IQ4_XS. The values are not evenly spaced
// (kvalues_iq4nl of ggml): -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113. Each value is
// a byte of the constants below, starting at the lowest byte.
STOWAGE_HOST_DEVICE inline float LevelOf(int q) {
  const uint64_t eight = q < 8 ? 0xF6EADDCFBFAD9881u : 0x7159453526190D01u;
  return static_cast<float>(static_cast<int8_t>(eight >> (8 * (q & 7)) & 255));
}

// Decodes 32 numbers d kLevels[q] from 16 bytes of nibbles.
template <typename Put>
STOWAGE_HOST_DEVICE inline void Levels(const uint8_t* nibbles, float d,
                                       Put put) {
  for (int j = 0; j < 16; ++j) put(j, d * LevelOf(nibbles[j] & 15));
  for (int j = 0; j < 16; ++j) put(j + 16, d * LevelOf(nibbles[j] >> 4));
}

// Returns the two-bit integer of number i in a block of 256 numbers.
STOWAGE_HOST_DEVICE inline int PairOf(const uint8_t* pairs, int i) {
  return pairs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
}

// Returns scale number s of a Q3_K block, from -32 to 31.
STOWAGE_HOST_DEVICE inline int ScaleOfQ3(const uint8_t* scales, int s) {
  const int low = scales[s % 8] >> (s / 8 * 4) & 15;
  const int high = scales[8 + s % 4] >> (s / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

// Returns twice the value of an e2m1 float, which is an integer.
STOWAGE_HOST_DEVICE inline int TwiceE2M1(int q) {
  const int magnitude = static_cast<int>(0xC8643210u >> (4 * (q & 7)) & 15u);
  return q < 8 ? magnitude : -magnitude;
}

// Returns 2^(e - 128), which is half of the scale of an MXFP4 block. It is subnormal for e < 2.
STOWAGE_HOST_DEVICE inline float HalfPower(uint32_t e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
  float power;
  memcpy(&power, &bits, sizeof(power));
  return power;
}

}  // namespace internal

// Each function decodes the block of its type at `from`, and calls put(i, number) for each of its
// numbers. A block of F32, F16 or BF16 is one number. `from` needs no alignment.

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

template <typename Put>
STOWAGE_HOST_DEVICE inline void Q2_K(const uint8_t* from, Put put) {
  const float d = internal::LoadHalf(from + 80);
  const float m = internal::LoadHalf(from + 82);
  for (int g = 0; g < 16; ++g) {
    const float ds = d * static_cast<float>(from[g] & 15);
    const float mt = m * static_cast<float>(from[g] >> 4);
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      put(i, ds * static_cast<float>(internal::PairOf(from + 16, i)) - mt);
    }
  }
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void Q3_K(const uint8_t* from, Put put) {
  const float d = internal::LoadHalf(from + 108);
  for (int g = 0; g < 16; ++g) {
    const float ds = d * static_cast<float>(internal::ScaleOfQ3(from + 96, g));
    for (int i = 16 * g; i < 16 * g + 16; ++i) {
      const int high = from[i % 32] >> (i / 32) & 1;
      const int q = internal::PairOf(from + 32, i) | high << 2;
      put(i, ds * static_cast<float>(q - 4));
    }
  }
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void IQ4_NL(const uint8_t* from, Put put) {
  internal::Levels(from + 2, internal::LoadHalf(from), put);
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void IQ4_XS(const uint8_t* from, Put put) {
  const float d = internal::LoadHalf(from);
  const int scales_high = internal::Load<uint16_t>(from + 2);
  for (int g = 0; g < 8; ++g) {
    const int scale = (from[4 + g / 2] >> (g % 2 * 4) & 15) |
                      (scales_high >> (2 * g) & 3) << 4;
    internal::Levels(from + 8 + 16 * g, d * static_cast<float>(scale - 32),
                     [&](int i, float number) { put(32 * g + i, number); });
  }
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void TQ1_0(const uint8_t* from, Put put) {
  const float d = internal::LoadHalf(from + 52);
  int at = 0;
  // Decodes the first digits of `count` bytes from `begin` on, then their second digits, and so on.
  const auto digits = [&](int begin, int count, int per_byte) {
    for (int n = 0, power = 1; n < per_byte; ++n, power *= 3) {
      for (int j = 0; j < count; ++j) {
        const int fraction = from[begin + j] * power & 255;
        put(at++, d * static_cast<float>((fraction * 3 >> 8) - 1));
      }
    }
  };
  digits(0, 32, 5);
  digits(32, 16, 5);
  digits(48, 4, 4);
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void TQ2_0(const uint8_t* from, Put put) {
  const float d = internal::LoadHalf(from + 64);
  for (int i = 0; i < 256; ++i) {
    put(i, d * static_cast<float>(internal::PairOf(from, i) - 1));
  }
}
template <typename Put>
STOWAGE_HOST_DEVICE inline void MXFP4(const uint8_t* from, Put put) {
  const float d = internal::HalfPower(from[0]);
  for (int j = 0; j < 16; ++j) {
    put(j, d * static_cast<float>(internal::TwiceE2M1(from[1 + j] & 15)));
  }
  for (int j = 0; j < 16; ++j) {
    put(j + 16, d * static_cast<float>(internal::TwiceE2M1(from[1 + j] >> 4)));
  }
}

}  // namespace stowage::math

#endif  // STOWAGE_MATH_WEIGHT_BLOCKS_H_
