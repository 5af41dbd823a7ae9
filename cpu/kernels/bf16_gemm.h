#ifndef STOWAGE_CPU_KERNELS_BF16_GEMM_H_
#define STOWAGE_CPU_KERNELS_BF16_GEMM_H_

// The inner loops of matmuls of bf16 by VDPBF16PS (AVX512-BF16), which multiplies pairs of
// 16-bit elements and adds them to f32 sums.
//
// Operands are read as pairs of elements that are neighbours along k: those of a are
// broadcast, those of b fill a register with sixteen columns. Rows of a that are contiguous
// along k are read in place; everything else is packed into pairs first, a block of
// kPairsDepth of k at a time. Where k is odd, the last pair is filled with zeros in both
// operands.
//
// Every element of c is one chain over the pairs of a block, with k rising, whatever the
// tile or the thread: an instruction adds the product of the second elements of a pair to
// the sum, then that of the first, each time in one rounding to the nearest, ties to even.
// It reads subnormal elements as zeros and gives zeros for subnormal sums, whatever the
// processor's rounding mode and exception masks; NaN and infinities are those of f32.
// These loops are compiled wherever there is AVX-512, and run where the processor has
// AVX512-BF16, too (cpu/targets.h).
//
//   const PairRows rows = PackRows(m, k, a, packed_a);
//   const PairColumns columns = PackColumns(k, n, b, packed_b);
//   MultiplyPairs(m, n, Pairs(k), rows, columns, sums, Into::kNew);

#include <algorithm>
#include <cstdint>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/gemm.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define STOWAGE_CPU_BF16_PAIRS
#endif

namespace stowage::cpu {

/// The depth (k) of a block of pairs: a packed strip of b is 32 KiB.
inline constexpr int64_t kPairsDepth = 512;
/// Columns of a strip of b, at most.
inline constexpr int64_t kPairsColumns = 32;
/// Rows of a panel of a.
inline constexpr int64_t kPanelRows = 8;

/// Pairs of k elements.
constexpr int64_t Pairs(int64_t k) { return CeilDiv(k, 2); }

/// Rows as pairs along k: pair p of row i is the two elements at
/// data + i / kPanelRows * panel + i % kPanelRows * row + p * step.
struct PairRows {
  const uint16_t* data;
  int64_t row, step, panel;
};

/// Columns as pairs along k: pair p of column j is at data[p * row + j], the first element
/// in the lower half. Whole registers of 16 columns may be read.
struct PairColumns {
  const uint32_t* data;
  int64_t row;
};

/// Elements that PackRows writes for m rows and a depth of k, at most.
constexpr int64_t PackedRowsElements(int64_t m, int64_t k) {
  return CeilDiv(m, kPanelRows) * (Pairs(k) * 2 * kPanelRows + 32);
}
/// Pairs that PackColumns writes for n columns and a depth of k.
constexpr int64_t PackedColumnsPairs(int64_t k, int64_t n) {
  return Pairs(k) * CeilDiv(n, 16) * 16;
}

/// The rows of a (m, k) in place where their pairs lie so, else packed.
PairRows PackRows(int64_t m, int64_t k, Strided<const uint16_t> a,
                  uint16_t* packed);

/// The columns of b (k, n), packed.
PairColumns PackColumns(int64_t k, int64_t n, Strided<const uint16_t> b,
                        uint32_t* packed);

/// a (m, 2 pairs) b (2 pairs, n) into c (m, n); m >= 1, 1 <= n <= kPairsColumns.
void MultiplyPairs(int64_t m, int64_t n, int64_t pairs, PairRows a,
                   PairColumns b, Rows<float> c, Into into);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_BF16_GEMM_H_
