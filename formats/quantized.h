#ifndef STOWAGE_FORMATS_QUANTIZED_H_
#define STOWAGE_FORMATS_QUANTIZED_H_

// The types in which files of weights hold numbers: floats of 32 and 16 bits, and the
// block formats of GGUF, where neighbouring numbers share a scale. A row of a matrix is
// whole blocks, so that rows can be read and moved without looking at a number.
//
//   std::vector<float> row(576);
//   Dequantize(WeightType::kQ4_1, bytes, row);   // bytes: 18 blocks of 20 bytes
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

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace stowage {

enum class WeightType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K
};
inline constexpr int kWeightTypes = 11;

struct BlockFormat {
  std::string_view name;  // "Q4_K"
  int64_t numbers = 1;    // of a block
  Bytes bytes = 0;        // likewise
};
/// How numbers of that type lie; a float is a block of one number.
const BlockFormat& FormatOf(WeightType type);

/// Bytes of so many numbers. Precondition: they are whole blocks.
Bytes BytesOf(WeightType type, int64_t numbers);

/// The numbers of whole blocks as floats. Every one is the float nearest to what the
/// block says, as all products above are exact. Precondition: `bytes` are those of as
/// many numbers as `to` has.
void Dequantize(WeightType type, std::span<const std::byte> bytes,
                std::span<float> to);

}  // namespace stowage

#endif  // STOWAGE_FORMATS_QUANTIZED_H_
