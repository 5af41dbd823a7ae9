#ifndef STOWAGE_CPU_KERNELS_AVX512_TRANSPOSE_H_
#define STOWAGE_CPU_KERNELS_AVX512_TRANSPOSE_H_

// Squares of 16 x 16 elements of 32 bits, transposed in registers, which need not come from
// memory as whole rows (for those, TransposeSquare of vec.h).
//
//   __m512i rows[16];
//   Transpose16(rows);

#ifdef __AVX512F__

#include <immintrin.h>

namespace stowage::cpu {

/// Row i becomes column i.
inline void Transpose16(__m512i (&rows)[16]) {
  __m512i halves[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    halves[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    halves[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  // Row 4 i + c has column c of rows 4 i to 4 i + 3, then their columns c + 4, c + 8, c + 12.
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(halves[i], halves[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(halves[i], halves[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(halves[i + 1], halves[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(halves[i + 1], halves[i + 3]);
  }
  constexpr int kEven = 0x88, kOdd = 0xdd;
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512i even_top = _mm512_shuffle_i32x4(rows[c], rows[4 + c], kEven);
    const __m512i odd_top = _mm512_shuffle_i32x4(rows[c], rows[4 + c], kOdd);
    const __m512i even_low =
        _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], kEven);
    const __m512i odd_low =
        _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], kOdd);
    rows[c] = _mm512_shuffle_i32x4(even_top, even_low, kEven);
    rows[4 + c] = _mm512_shuffle_i32x4(odd_top, odd_low, kEven);
    rows[8 + c] = _mm512_shuffle_i32x4(even_top, even_low, kOdd);
    rows[12 + c] = _mm512_shuffle_i32x4(odd_top, odd_low, kOdd);
  }
}

}  // namespace stowage::cpu

#endif  // __AVX512F__

#endif  // STOWAGE_CPU_KERNELS_AVX512_TRANSPOSE_H_
