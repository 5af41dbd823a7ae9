#ifndef STOWAGE_MATH_MOMENT_CODES_H_
#define STOWAGE_MATH_MOMENT_CODES_H_

// Optimizer moments in eight bits. Elements share a scale, the largest magnitude of
// their block, and a byte says what part of it an element is: from -1 to 1 for a first
// moment, from 0 to 1 for a second. Two codes:
//
// Dynamic (Dettmers, Lewis, Shleifer & Zettlemoyer 2022, "8-bit optimizers via
// block-wise quantization"; the table is that of bitsandbytes, create_dynamic_map):
// seven decades, each with twice as many numbers as the one below, so that the relative
// error of a number is about the same in all of them but grows below. With n = 2^i
// numbers (2^(i+1), if there is no sign), the decade i of 0 to 6 has
// 10^(i-6) (0.1 + 0.9 (k + 1/2) / n), 0 <= k < n. 0 and 1 are numbers, too; -1 is not.
// An element has the byte of the number that is nearest to it.
//
// Companded (Gonzalez Ortiz et al. 2026, "FlashOptim", arXiv 2602.23349): a curve that
// is steep where most elements are, then bytes at equal distances:
// round(127 z), z = 2x / (1 + |x|), x = z / (2 - |z|); round(255 sqrt(x)).
//
// Of both: the byte 0 is 0, so states of zeros are zero whatever their scale. A second
// moment that is not 0 does not become 0, here otherwise than there: an update divides
// by its root. What is not finite makes its block's scale, and so the block, not finite.
//
// What is larger than 1, by the rounding of a product, counts as 1; NaN as 0.
//
//   const float inverse = InverseOf(scale);
//   m_byte = SignedCompandedCode::Encode(m * inverse);
//   m = scale * SignedCompandedCode::Decode(m_byte);

#include <cstdint>

#include "math/portable.h"

namespace stowage::math {

/// What an element is multiplied by to be a part of its scale; 0 where all of the block
/// is 0 or not finite. Of a scale below 2^-128 it is infinite: what is not 0 is then 1.
STOWAGE_HOST_DEVICE inline float InverseOf(float scale) {
  return scale > 0 ? 1 / scale : 0.0f;
}

namespace internal {

// What the signed code and that without a sign share, for magnitudes: `kMore` is 0 or
// 1, how often a decade's numbers are doubled.
template <int kMore>
struct DynamicMagnitudes {
  static constexpr int kOne = (128 << kMore) - kMore;  // the number of 1
  static constexpr int kDecades = 7;

  // Loops over decades go through all of them, and what is a quotient by a power of two
  // is a product, which is exact: threads of a GPU's warp go the same way, and divide
  // once.

  // Number j, in order from 0: of decade i are numbers 2^(i + kMore) - kMore and on.
  STOWAGE_HOST_DEVICE static constexpr float Number(int j) {
    if (j == 0) return 0;
    if (j == kOne) return 1;
    const int at = j + kMore;
    int n = 64 << kMore;
    float of_one = 1.0f / static_cast<float>(n);
    float power = 1;  // exact
    for (int decade = 1; decade < kDecades; ++decade) {
      const bool is_below = n > at;
      n = is_below ? n / 2 : n;
      of_one = is_below ? of_one * 2 : of_one;
      power = is_below ? power * 10 : power;
    }
    const float middle = static_cast<float>(at - n) + 0.5f;
    return (0.1f + 0.9f * middle * of_one) / power;
  }

  // The number that is nearest to x, of two the lower. Numbers are
  // the middles of their cells, so it is x's own cell's, save at the ends of decades.
  STOWAGE_HOST_DEVICE static constexpr int Nearest(float x) {
    if (!(x > 0)) return 0;
    if (x >= 1) return kOne;
    int n = 64 << kMore;
    float in_decade = x;
    for (int decade = 1; decade < kDecades; ++decade) {
      const bool is_below = in_decade < 0.1f;
      n = is_below ? n / 2 : n;
      in_decade = is_below ? in_decade * 10 : in_decade;
    }
    const float cell =
        (in_decade - 0.1f) * (static_cast<float>(n) * (1 / 0.9f));
    int k = cell > 0 ? static_cast<int>(cell) : 0;
    if (k > n - 1) k = n - 1;
    const int j = n - kMore + k;
    if (k == 0 && x - Number(j - 1) <= Number(j) - x) return j - 1;
    if (j + 1 == kOne && 1 - x < x - Number(j)) return kOne;
    return j;
  }
};

}  // namespace internal

/// Of a first moment: bytes are signed, and 1 is -128.
struct SignedDynamicCode {
  STOWAGE_HOST_DEVICE static uint8_t Encode(float x) {
    using Magnitudes = internal::DynamicMagnitudes<0>;
    int j = Magnitudes::Nearest(x < 0 ? -x : x);
    if (x < 0) j = j == Magnitudes::kOne ? 1 - j : -j;
    return static_cast<uint8_t>(j);
  }
  STOWAGE_HOST_DEVICE static constexpr float Decode(uint8_t code) {
    using Magnitudes = internal::DynamicMagnitudes<0>;
    if (code == Magnitudes::kOne) return 1;
    const int j = static_cast<int8_t>(code);
    return j < 0 ? -Magnitudes::Number(-j) : Magnitudes::Number(j);
  }
};

/// Of a second moment.
struct DynamicCode {
  STOWAGE_HOST_DEVICE static uint8_t Encode(float x) {
    const int j = internal::DynamicMagnitudes<1>::Nearest(x);
    return static_cast<uint8_t>(j == 0 && x > 0 ? 1 : j);
  }
  STOWAGE_HOST_DEVICE static constexpr float Decode(uint8_t code) {
    return internal::DynamicMagnitudes<1>::Number(code);
  }
};

/// Of a first moment: bytes are signed.
struct SignedCompandedCode {
  STOWAGE_HOST_DEVICE static uint8_t Encode(float x) {
    const float magnitude = x < 0 ? -x : x;
    if (!(magnitude > 0)) return 0;
    const float z = magnitude < 1 ? 2 * magnitude / (1 + magnitude) : 1.0f;
    const int j = static_cast<int>(127 * z + 0.5f);
    return static_cast<uint8_t>(x < 0 ? -j : j);
  }
  STOWAGE_HOST_DEVICE static constexpr float Decode(uint8_t code) {
    const float z =
        static_cast<float>(static_cast<int8_t>(code)) * (1.0f / 127);
    return z / (2 - (z < 0 ? -z : z));
  }
};

/// Of a second moment.
struct CompandedCode {
  STOWAGE_HOST_DEVICE static uint8_t Encode(float x) {
    if (!(x > 0)) return 0;
    const int j = x < 1 ? static_cast<int>(255 * Sqrt(x) + 0.5f) : 255;
    return static_cast<uint8_t>(j == 0 ? 1 : j);
  }
  STOWAGE_HOST_DEVICE static constexpr float Decode(uint8_t code) {
    const float root = static_cast<float>(code) * (1.0f / 255);
    return root * root;
  }
};

}  // namespace stowage::math

#endif  // STOWAGE_MATH_MOMENT_CODES_H_
