#include "cpu/kernels/bf16_gemm.h"

#ifdef STOWAGE_CPU_BF16_PAIRS

#include <immintrin.h>

#include <array>
#include <cstring>

namespace stowage::cpu {
namespace {

constexpr int64_t kLanes = 16;  // of f32, and pairs

// The first n of 16 lanes, or of 32.
__mmask16 First16(int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xFFFF : (1 << n) - 1);
}
__mmask32 First32(int64_t n) {
  return n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1;
}

// Up to 32 elements, with zeros after the first n.
__m512i LoadElements(const uint16_t* from, int64_t n) {
  return _mm512_maskz_loadu_epi16(First32(n), from);
}

// Interleaves the elements of two registers from `from` on.
constexpr std::array<uint16_t, 32> InTurn(uint16_t from) {
  std::array<uint16_t, 32> places = {};
  for (size_t i = 0; i < 16; ++i) {
    places[2 * i] = static_cast<uint16_t>(from + i);
    places[2 * i + 1] = static_cast<uint16_t>(32 + from + i);
  }
  return places;
}

// Pairs of the elements of two rows: of the first 16 columns, and of the others.
struct Interleaved {
  Interleaved(__m512i first, __m512i second) {
    alignas(64) static constexpr std::array<uint16_t, 32> kLow = InTurn(0);
    alignas(64) static constexpr std::array<uint16_t, 32> kHigh = InTurn(16);
    low = _mm512_permutex2var_epi16(first, _mm512_load_si512(&kLow), second);
    high = _mm512_permutex2var_epi16(first, _mm512_load_si512(&kHigh), second);
  }
  __m512i low, high;
};

// Rows 2p and 2p + 1 of x, from column j on: up to 32 of n columns and k rows, which are
// contiguous.
Interleaved PairsOfRows(int64_t k, int64_t n, const Strided<const uint16_t>& x,
                        int64_t p, int64_t j) {
  const uint16_t* from = x.data + 2 * p * x.row + j;
  const __m512i first = LoadElements(from, n - j);
  const __m512i second = 2 * p + 1 < k ? LoadElements(from + x.row, n - j)
                                       : _mm512_setzero_si512();
  return {first, second};
}

// Element by element, into rows of `pitch` elements with zeros after the k-th.
void CopyRows(int64_t m, int64_t k, const Strided<const uint16_t>& a,
              uint16_t* packed, int64_t pitch) {
  for (int64_t i = 0; i < m; ++i) {
    uint16_t* const to = packed + i * pitch;
    const uint16_t* const from = a.data + i * a.row;
    for (int64_t j = 0; j < k; ++j) to[j] = from[j * a.column];
    std::fill(to + k, to + pitch, uint16_t{0});
  }
}

// Columns of b that are contiguous along k: squares of 16 columns and pairs, transposed.
void PackTransposed(int64_t k, int64_t n, const Strided<const uint16_t>& b,
                    uint32_t* packed, int64_t row) {
  for (int64_t j = 0; j < n; j += kLanes) {
    for (int64_t p = 0; p < Pairs(k); p += kLanes) {
      __m512i square[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) {
        square[i] =
            j + i < n
                ? LoadElements(b.data + (j + i) * b.column + 2 * p, k - 2 * p)
                : _mm512_setzero_si512();
      }
      Transpose16(square);
      for (int64_t i = 0; i < std::min(kLanes, Pairs(k) - p); ++i) {
        _mm512_storeu_si512(packed + (p + i) * row + j, square[i]);
      }
    }
  }
}

// One block of c; `last` has the lanes of its last register. A lambda would not be compiled
// for the function's instructions.
template <int kM, int kVecs>
[[gnu::target("avx512bf16")]] void MultiplyBlock(int64_t pairs,
                                                 const uint16_t* a, int64_t row,
                                                 int64_t step, PairColumns b,
                                                 Rows<float> c, __mmask16 last,
                                                 Into into) {
  __m512 sum[kM][kVecs];
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      const float* from = c.data + i * c.row + j * kLanes;
      const __mmask16 lanes = j == kVecs - 1 ? last : __mmask16{0xFFFF};
      sum[i][j] = into == Into::kChain ? _mm512_maskz_loadu_ps(lanes, from)
                                       : _mm512_setzero_ps();
    }
  }
  const uint32_t* columns = b.data;
  for (int64_t p = 0; p < pairs; ++p) {
    __m512i b_vec[kVecs];
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      b_vec[j] = _mm512_loadu_si512(columns + j * kLanes);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kM; ++i) {
      int32_t pair;
      std::memcpy(&pair, a + i * row, sizeof(pair));
      const __m512i a_all = _mm512_set1_epi32(pair);
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) {
        sum[i][j] =
            _mm512_dpbf16_ps(sum[i][j], (__m512bh)a_all, (__m512bh)b_vec[j]);
      }
    }
    a += step;
    columns += b.row;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      float* to = c.data + i * c.row + j * kLanes;
      const __mmask16 lanes = j == kVecs - 1 ? last : __mmask16{0xFFFF};
      if (into == Into::kSum) {
        sum[i][j] = _mm512_add_ps(sum[i][j], _mm512_maskz_loadu_ps(lanes, to));
      }
      _mm512_mask_storeu_ps(to, lanes, sum[i][j]);
    }
  }
}

// Fewer than a panel's rows left over, by ever smaller blocks.
template <int kM, int kVecs>
void MultiplyRows(int64_t m, int64_t pairs, const uint16_t* a, PairRows rows,
                  PairColumns b, Rows<float> c, __mmask16 last, Into into) {
  if (m >= kM) {
    MultiplyBlock<kM, kVecs>(pairs, a, rows.row, rows.step, b, c, last, into);
    m -= kM;
    a += kM * rows.row;
    c = c.At(kM, 0);
  }
  if constexpr (kM > 1) {
    if (m > 0) {
      MultiplyRows<kM / 2, kVecs>(m, pairs, a, rows, b, c, last, into);
    }
  }
}

template <int kVecs>
void MultiplyPanels(int64_t m, int64_t n, int64_t pairs, PairRows a,
                    PairColumns b, Rows<float> c, Into into) {
  const __mmask16 last = First16(n - (kVecs - 1) * kLanes);
  for (int64_t i = 0; i < m; i += kPanelRows) {
    MultiplyRows<kPanelRows, kVecs>(std::min(kPanelRows, m - i), pairs,
                                    a.data + i / kPanelRows * a.panel, a, b,
                                    c.At(i, 0), last, into);
  }
}

}  // namespace

PairRows PackRows(int64_t m, int64_t k, Strided<const uint16_t> a,
                  uint16_t* packed) {
  if (a.column == 1 && k % 2 == 0) {
    return {a.data, a.row, 2, kPanelRows * a.row};
  }
  if (a.row != 1) {
    const int64_t pitch = 2 * Pairs(k);
    CopyRows(m, k, a, packed, pitch);
    return {packed, pitch, 2, kPanelRows * pitch};
  }
  // A panel keeps the rows that a block reads together; panels are not a power of 2 apart.
  constexpr int64_t kStep = 2 * kPanelRows;
  const int64_t panel = Pairs(k) * kStep + 32;
  const Strided<const uint16_t> lines = {a.data, a.column, 1};
  for (int64_t p = 0; p < Pairs(k); ++p) {
    for (int64_t i = 0; i < m; i += 2 * kLanes) {
      const Interleaved pairs = PairsOfRows(k, m, lines, p, i);
      const __m256i parts[] = {_mm512_castsi512_si256(pairs.low),
                               _mm512_extracti64x4_epi64(pairs.low, 1),
                               _mm512_castsi512_si256(pairs.high),
                               _mm512_extracti64x4_epi64(pairs.high, 1)};
      uint16_t* const to = packed + i / kPanelRows * panel + p * kStep;
      for (int64_t part = 0; part * kPanelRows < std::min(2 * kLanes, m - i);
           ++part) {
        std::memcpy(to + part * panel, &parts[part], sizeof(parts[part]));
      }
    }
  }
  return {packed, 2, kStep, panel};
}

PairColumns PackColumns(int64_t k, int64_t n, Strided<const uint16_t> b,
                        uint32_t* packed) {
  const int64_t row = CeilDiv(n, kLanes) * kLanes;
  if (b.column == 1) {
    for (int64_t p = 0; p < Pairs(k); ++p) {
      for (int64_t j = 0; j < n; j += 2 * kLanes) {
        const Interleaved pairs = PairsOfRows(k, n, b, p, j);
        uint32_t* const to = packed + p * row + j;
        _mm512_storeu_si512(to, pairs.low);
        if (n - j > kLanes) _mm512_storeu_si512(to + kLanes, pairs.high);
      }
    }
  } else if (b.row == 1) {
    PackTransposed(k, n, b, packed, row);
  } else {
    std::fill_n(packed, Pairs(k) * row, uint32_t{0});
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < n; ++j) {
        packed[p / 2 * row + j] |= uint32_t{b.data[p * b.row + j * b.column]}
                                   << p % 2 * 16;
      }
    }
  }
  return {packed, row};
}

void MultiplyPairs(int64_t m, int64_t n, int64_t pairs, PairRows a,
                   PairColumns b, Rows<float> c, Into into) {
  if (n > kLanes) {
    MultiplyPanels<2>(m, n, pairs, a, b, c, into);
  } else {
    MultiplyPanels<1>(m, n, pairs, a, b, c, into);
  }
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BF16_PAIRS
