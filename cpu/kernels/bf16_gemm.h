#ifndef STOWAGE_CPU_KERNELS_BF16_GEMM_H_
#define STOWAGE_CPU_KERNELS_BF16_GEMM_H_

// Provides the inner loops of bf16 matmuls. They use the instruction VDPBF16PS (AVX512-BF16),
// which multiplies pairs of 16-bit elements and adds the results to f32 sums.
//
// Operands are read as pairs of elements that are adjacent along k. A pair of a is broadcast, and a
// register holds the pairs of sixteen columns of b. Rows of a are read in place if they are
// contiguous along k and k is even. Otherwise, and for b, operands are packed into pairs,
// kPairsDepth of k at a time. If k is odd, the last pair of both operands is completed with zeros.
//
// Each element of c is computed by one chain of multiply-adds over the pairs of a block of k, in
// order. The chain does not depend on the tile that contains the element or on the thread. The
// instruction multiplies the second elements of a pair and adds the result to the sum, then does
// the same with the first elements. Each step has one rounding to nearest, ties to even. The
// instruction reads subnormal elements as zeros and flushes subnormal sums to zero, whatever the
// processor's rounding mode and exception masks. It handles NaN and infinities as f32 arithmetic
// does. These loops are compiled for every CPU target with AVX-512, and must run only on a
// processor that also has AVX512-BF16 (cpu/targets.h).
//
//   const PairRows rows = PackRows(m, k, a, packed_a);
//   const PairColumns columns = PackColumns(k, n, b, packed_b);
//   MultiplyPairs(m, n, Pairs(k), rows, columns, sums, Into::kNew);

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstdint>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/gemm.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define STOWAGE_CPU_BF16_PAIRS
#endif

namespace stowage::cpu {

/// The depth (k) of a block of pairs. A packed strip of b is then 32 KiB.
inline constexpr int64_t kPairsDepth = 512;
/// The maximum number of columns in a strip of b.
inline constexpr int64_t kPairsColumns = 32;
/// The number of rows in a panel of a, which is the rows that a block of c reads.
inline constexpr int64_t kPanelRows = 8;

/// Returns the number of pairs in k elements.
constexpr int64_t Pairs(int64_t k) { return CeilDiv(k, 2); }

/// The rows of a as pairs along k. Pair p of row i is the two elements at data + i / kPanelRows *
/// panel + i % kPanelRows * row + p * step.
struct PairRows {
  const uint16_t* data;
  int64_t row, step, panel;
};

/// The columns of b as pairs along k. Pair p of column j is at data[p * row + j], with its first
/// element in the lower half. Registers of 16 columns may be read as a whole, so a row must be
/// padded to a multiple of 16.
struct PairColumns {
  const uint32_t* data;
  int64_t row;
};

/// Returns the maximum number of elements that PackRows writes for m rows and a depth of k.
constexpr int64_t PackedRowsElements(int64_t m, int64_t k) {
  return CeilDiv(m, kPanelRows) * (Pairs(k) * 2 * kPanelRows + 32);
}
/// Returns the number of pairs that PackColumns writes for n columns and a depth of k.
constexpr int64_t PackedColumnsPairs(int64_t k, int64_t n) {
  return Pairs(k) * CeilDiv(n, 16) * 16;
}

/// Returns the rows of a (m, k) as pairs. They refer to a if a is contiguous along k and k is even,
/// and otherwise to `packed`, which has PackedRowsElements(m, k) elements.
PairRows PackRows(int64_t m, int64_t k, Strided<const uint16_t> a,
                  uint16_t* packed);

/// Packs the columns of b (k, n) as pairs into `packed`, which has PackedColumnsPairs(k, n)
/// elements.
PairColumns PackColumns(int64_t k, int64_t n, Strided<const uint16_t> b,
                        uint32_t* packed);

/// Computes the matmul of a (m, 2 pairs) and b (2 pairs, n), and combines it with c (m, n) as
/// `into` specifies. Requires m >= 1 and 1 <= n <= kPairsColumns.
void MultiplyPairs(int64_t m, int64_t n, int64_t pairs, PairRows a,
                   PairColumns b, Rows<float> c, Into into);

#ifdef __AVX512F__

/// Transposes a square of 16 x 16 elements of 32 bits that is held in registers. (TransposeSquare
/// of vec.h transposes squares in memory.)
inline void Transpose16(__m512i (&rows)[16]) {
  __m512i halves[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    halves[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    halves[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  // Row 4 i + c holds columns c, c + 4, c + 8 and c + 12 of rows 4 i to 4 i + 3.
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

#endif  // __AVX512F__

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_BF16_GEMM_H_
