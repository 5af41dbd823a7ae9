#ifndef STOWAGE_CPU_KERNELS_GEMM_H_
#define STOWAGE_CPU_KERNELS_GEMM_H_

// Matmuls: the inner loops, whole matmuls on the thread pool, of floats and of quantized
// weights, and the trial by which the blocking of a matmul is tuned.
//
//   const int64_t strip = StripElements<T>(k);  // scratch: strip * threads
//   Product<T>(pool, m, n, k, a, b, c, /*accumulate=*/false, scratch);
//
// The inner loops compute a block of up to kBlockRows rows by one strip of a few registers of
// columns, held in registers over k.
//
// Eigen's matmul is not used: it allocates its packing blocks on the heap, and on the shapes
// of a small transformer it is slower than these loops
// (docs/archive/2026-11-27-cpu-products.md), which read rows of a by broadcast, without
// packing.
//
// Every element of c is one chain of multiply-adds in order of k, whatever strip or block
// contains it: a chain that begins at 0, one that continues from c, or a separate one whose
// sum is added to c (Into). The bits of a result therefore do not depend on tile sizes or
// threads; they depend on where k is split, unless chains continue.
//
//   MultiplyStrip<T>(m, n, k, a, b, c, Into::kNew);

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "cpu/blocking.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/vec.h"
#include "cpu/thread_pool.h"
#include "ir/weight_type.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

/// An operand read by single numbers: element (i, j) is at
/// data[i * row + j * column].
template <typename T>
struct Strided {
  const T* data;
  int64_t row;
  int64_t column;

  Strided At(int64_t i, int64_t j) const {
    return {data + i * row + j * column, row, column};
  }
};

/// An operand whose rows are contiguous, `row` apart. `padded` says that whole
/// registers may be read past the end of a row.
template <typename T>
struct Rows {
  T* data;
  int64_t row;
  bool padded = false;

  Rows At(int64_t i, int64_t j) const {
    return {data + i * row + j, row, padded};
  }
};

/// How a result is combined with the previous value of c.
enum class Into {
  kNew,    // c = a b
  kChain,  // c + a b; the chain of each element continues from c
  kSum,  // c + a b, each rounded before they are added, which keeps the errors of long
         // sums those of their parts
};
/// Chains that continue from c, or begin at 0.
inline Into Chains(bool accumulate) {
  return accumulate ? Into::kChain : Into::kNew;
}

/// Terms added to every complete element of c, in this order, each sum rounded: a row, the
/// same for all rows, and a matrix. Either may be absent.
template <typename T>
struct Finish {
  const T* row = nullptr;
  Rows<const T> matrix = {nullptr, 0};

  Finish At(int64_t i, int64_t j) const {
    Finish at;
    if (row != nullptr) at.row = row + j;
    if (matrix.data != nullptr) at.matrix = matrix.At(i, j);
    return at;
  }
};

namespace internal {

// 32 registers hold at most 8 x 3 sums, 3 registers of b and one of a; 16 hold 4 x 3. With
// AVX-512, 8 x 2 sums keep the multipliers busy and let one block begin while the previous
// one ends; rows whose length is a power of 2 are also whole strips more often.
#if defined(__AVX512F__)
inline constexpr int kBlockRows = 8;
inline constexpr int kStripVecs = 2;
#elif defined(__aarch64__)
inline constexpr int kBlockRows = 8;
inline constexpr int kStripVecs = 3;
#else
inline constexpr int kBlockRows = 4;
inline constexpr int kStripVecs = 3;
#endif
inline constexpr int kMaxStripVecs = 3;

}  // namespace internal

/// Columns of a strip by default (cpu/blocking.h).
template <typename T>
inline constexpr int64_t kStripColumns = internal::kStripVecs* Vec<T>::kLanes;
/// Columns of a strip, at most.
template <typename T>
inline constexpr int64_t kMaxStripColumns =
    internal::kMaxStripVecs* Vec<T>::kLanes;

namespace internal {

enum class Tail {
  kNone,    // the strip is whole registers
  kPadded,  // its last register is partly used, b may be read past it
  kExact,   // its last register is partly used
};

template <typename T, int kM, int kVecs, Tail kTail>
void MultiplyBlock(int64_t n, int64_t k, Strided<T> a, Rows<const T> b,
                   Rows<T> c, Into into, Finish<T> finish) {
  using V = Vec<T>;
  constexpr int kLast = kVecs - 1;
  const int64_t last_count = n - kLast * V::kLanes;
  V sum[kM][kVecs];
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVecs; ++j) {
      const T* from = c.data + i * c.row + j * V::kLanes;
      if (into != Into::kChain) {
        sum[i][j] = V::Zero();
      } else if (j == kLast && kTail != Tail::kNone) {
        sum[i][j] = V::LoadFirst(from, last_count, T(0));
      } else {
        sum[i][j] = V::Load(from);
      }
    }
  }
  // Prefetches the results that are written at the end.
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kVecs; ++j) {
      __builtin_prefetch(c.data + i * c.row + j * V::kLanes, 1);
    }
  }
  // Prefetches a few elements of a, whose rows may be far apart: the same few sets of the first
  // cache hold no more.
  constexpr int kAhead = 6;
  const T* b_row = b.data;
  const T* a_column = a.data;
  for (int64_t p = 0; p < k; ++p) {
    __builtin_prefetch(a_column + kAhead * a.column);
    V b_vec[kVecs];
    for (int j = 0; j < kVecs; ++j) {
      const T* from = b_row + j * V::kLanes;
      if (j == kLast && kTail == Tail::kExact) {
        b_vec[j] = V::LoadFirst(from, last_count, T(0));
      } else {
        b_vec[j] = V::Load(from);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kM; ++i) {
      const V a_all = V::All(a_column[i * a.row]);
#pragma GCC unroll 3
      for (int j = 0; j < kVecs; ++j) {
        sum[i][j] = MulAdd(a_all, b_vec[j], sum[i][j]);
      }
    }
    b_row += b.row;
    a_column += a.column;
  }
  // Loops over sums are unrolled, or these would not stay in registers.
  const auto add = [&](const T* from, int64_t row) {
#pragma GCC unroll 8
    for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < kVecs; ++j) {
        const T* at = from + i * row + j * V::kLanes;
        sum[i][j] += j == kLast && kTail != Tail::kNone
                         ? V::LoadFirst(at, last_count, T(0))
                         : V::Load(at);
      }
    }
  };
  if (into == Into::kSum) add(c.data, c.row);
  if (finish.row != nullptr) add(finish.row, 0);
  if (finish.matrix.data != nullptr) add(finish.matrix.data, finish.matrix.row);
#pragma GCC unroll 8
  for (int i = 0; i < kM; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVecs; ++j) {
      T* to = c.data + i * c.row + j * V::kLanes;
      if (j == kLast && kTail != Tail::kNone) {
        sum[i][j].StoreFirst(to, last_count);
      } else {
        sum[i][j].Store(to);
      }
    }
  }
}

// The rows left over, by ever smaller blocks.
template <typename T, int kM, int kVecs, Tail kTail>
void MultiplyRows(int64_t m, int64_t n, int64_t k, Strided<T> a,
                  Rows<const T> b, Rows<T> c, Into into, Finish<T> finish) {
  int64_t i = 0;
  for (; i + kM <= m; i += kM) {
    MultiplyBlock<T, kM, kVecs, kTail>(n, k, a.At(i, 0), b, c.At(i, 0), into,
                                       finish.At(i, 0));
  }
  if constexpr (kM > 1) {
    if (i < m) {
      MultiplyRows<T, kM / 2, kVecs, kTail>(m - i, n, k, a.At(i, 0), b,
                                            c.At(i, 0), into, finish.At(i, 0));
    }
  }
}

template <typename T, int kVecs>
void MultiplyVecs(int64_t m, int64_t n, int64_t k, Strided<T> a,
                  Rows<const T> b, Rows<T> c, Into into, Finish<T> finish) {
  if (n == kVecs * Vec<T>::kLanes) {
    MultiplyRows<T, kBlockRows, kVecs, Tail::kNone>(m, n, k, a, b, c, into,
                                                    finish);
  } else if (b.padded) {
    MultiplyRows<T, kBlockRows, kVecs, Tail::kPadded>(m, n, k, a, b, c, into,
                                                      finish);
  } else {
    MultiplyRows<T, kBlockRows, kVecs, Tail::kExact>(m, n, k, a, b, c, into,
                                                     finish);
  }
}

}  // namespace internal

/// a (m, k) b (k, n) into c (m, n), and `finish`; 1 <= n <= kMaxStripColumns, m >= 1.
template <typename T>
void MultiplyStrip(int64_t m, int64_t n, int64_t k, Strided<T> a,
                   Rows<const T> b, Rows<T> c, Into into,
                   Finish<T> finish = {}) {
  constexpr int64_t kLanes = Vec<T>::kLanes;
  if (n > 2 * kLanes) {
    internal::MultiplyVecs<T, 3>(m, n, k, a, b, c, into, finish);
  } else if (n > kLanes) {
    internal::MultiplyVecs<T, 2>(m, n, k, a, b, c, into, finish);
  } else {
    internal::MultiplyVecs<T, 1>(m, n, k, a, b, c, into, finish);
  }
}

/// The same for any n, strip by strip; chains go on with `accumulate`.
template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, Strided<T> a, Rows<const T> b,
              Rows<T> c, bool accumulate) {
  for (int64_t j = 0; j < n; j += kStripColumns<T>) {
    MultiplyStrip<T>(m, std::min(kStripColumns<T>, n - j), k, a, b.At(0, j),
                     c.At(0, j), Chains(accumulate));
  }
}

/// Copies b (k, n) to rows of `row` elements, a multiple of the register's
/// lanes and >= n, with zeros after the n-th.
template <typename T>
void Pack(int64_t k, int64_t n, Strided<T> b, T* packed, int64_t row);

extern template void Pack(int64_t, int64_t, Strided<float>, float*, int64_t);
extern template void Pack(int64_t, int64_t, Strided<double>, double*, int64_t);

// --- On the thread pool ------------------------------------------------------
//
// A matmul is divided into tasks (chunk of rows, strip of columns). Each task packs its own
// strip of b, which costs a few percent of the task and saves a second pass with a barrier.
// The scratch is one strip per thread, however large the matmul.
//
// A Blocking changes how the matmul is divided. Packed strips are at most kStripColumns
// wide, so the scratch is the same for every Blocking.

/// Depth of a packed strip: 32 KiB of it on AVX-512.
template <typename T>
inline constexpr int64_t kBlockDepth = 1024 / static_cast<int64_t>(sizeof(T));

/// Elements of a packed strip for matmuls of that depth (k).
template <typename T>
constexpr int64_t StripElements(int64_t depth) {
  return std::min(depth, kBlockDepth<T>) * kStripColumns<T>;
}

inline constexpr int64_t kMaxTaskRows = 256;

/// Columns of a strip; for packed strips at most kStripColumns.
template <typename T>
int64_t StripColumns(const Blocking& blocking) {
  if (blocking.strip == 0) return kStripColumns<T>;
  const int64_t columns = blocking.strip * Vec<T>::kLanes;
  return blocking.packs ? std::min(columns, kStripColumns<T>) : columns;
}

/// Rows of c that are computed at once.
inline constexpr int64_t kTileRows = 8;

/// Rows of a task: many, so that a packed strip is reused often, but few enough for at least
/// two tasks per thread.
inline int64_t RowsPerTask(int64_t rows, int64_t tasks_per_row_chunk,
                           int threads) {
  constexpr int64_t kMin = 32;
  // With 8 tasks, one that begins late delays the end only a little.
  const int64_t tasks = std::max(8, 2 * threads);
  int64_t chunk = kMaxTaskRows;
  while (chunk > kMin && CeilDiv(rows, chunk) * tasks_per_row_chunk < tasks)
    chunk /= 2;
  return chunk;
}

inline int64_t RowsPerTask(const Blocking& blocking, int64_t rows,
                           int64_t tasks_per_row_chunk, int threads) {
  return blocking.task_rows == 0
             ? RowsPerTask(rows, tasks_per_row_chunk, threads)
             : blocking.task_rows;
}

/// One task: c (m, n) = a (m, k) b (k, n), or c += with `accumulate`; n <= kStripColumns, or
/// kMaxStripColumns if nothing is packed. `packs` is a Blocking's; strips that are not
/// contiguous are always packed. Each kBlockDepth of k is a separate sum, but the first
/// continues from c. `packed` has StripElements(k) elements. `finish`, and after(i, rows) for
/// kTileRows rows of c at a time, are applied while the rows are in the cache.
template <typename T, typename After = std::nullptr_t>
void ProductTask(int64_t m, int64_t n, int64_t k, Strided<T> a, Strided<T> b,
                 Rows<T> c, bool accumulate, T* packed, bool packs = true,
                 const Finish<T>& finish = {}, const After& after = nullptr) {
  // With fewer rows than this, packing a strip costs more than it gains.
  constexpr int64_t kPackRows = 16;
  const bool pack = b.column != 1 || (packs && m >= kPackRows);
  for (int64_t p = 0; p < k; p += kBlockDepth<T>) {
    const int64_t depth = std::min(kBlockDepth<T>, k - p);
    Rows<const T> strip = {b.At(p, 0).data, b.row};
    if (pack) {
      Pack<T>(depth, n, b.At(p, 0), packed, kStripColumns<T>);
      strip = {packed, kStripColumns<T>, /*padded=*/true};
    }
    const Into into = p > 0 ? Into::kSum : Chains(accumulate);
    const bool is_last = p + depth == k;
    if constexpr (!std::is_null_pointer_v<After>) {
      for (int64_t i = 0; is_last && i < m; i += kTileRows) {
        const int64_t rows = std::min(kTileRows, m - i);
        MultiplyStrip<T>(rows, n, depth, a.At(i, p), strip, c.At(i, 0), into,
                         finish.At(i, 0));
        after(i, rows);
      }
      if (is_last) continue;
    }
    MultiplyStrip<T>(m, n, depth, a.At(0, p), strip, c, into,
                     is_last ? finish : Finish<T>());
  }
}

/// c (m, n) = a (m, k) b (k, n), or c += with `accumulate`. `scratch` has
/// StripElements(k) elements for each thread of the pool.
template <typename T>
void Product(ThreadPool& pool, int64_t m, int64_t n, int64_t k, Strided<T> a,
             Strided<T> b, Rows<T> c, bool accumulate, T* scratch,
             const Blocking& blocking = {}) {
  const int64_t width = StripColumns<T>(blocking);
  const int64_t strips = CeilDiv(n, width);
  const int64_t task_rows = RowsPerTask(blocking, m, strips, pool.threads());
  pool.ParallelFor(CeilDiv(m, task_rows) * strips, [&](int64_t task,
                                                       int thread) {
    const int64_t column = task % strips * width;
    const int64_t row = task / strips * task_rows;
    ProductTask<T>(std::min(task_rows, m - row), std::min(width, n - column), k,
                   a.At(row, 0), b.At(0, column), c.At(row, column), accumulate,
                   scratch + thread * StripElements<T>(k), blocking.packs);
  });
}

// --- Autotuning --------------------------------------------------------------
//
//   std::optional<BlockingTrial> trial = ProductTrial(m, n, k, a, b, pool.threads());

/// The trial of a (m, k) b (k, n), or a part of it, on other memory with the same strides;
/// the elements of a and b are not read. None for matmuls below kMinTrialWork, parts that
/// span more than kMaxTrialBytes, and shapes with a single candidate.
template <typename T>
std::optional<BlockingTrial> ProductTrial(int64_t m, int64_t n, int64_t k,
                                          const Strided<T>& a,
                                          const Strided<T>& b, int threads);

extern template std::optional<BlockingTrial> ProductTrial(int64_t, int64_t,
                                                          int64_t,
                                                          const Strided<float>&,
                                                          const Strided<float>&,
                                                          int);
extern template std::optional<BlockingTrial> ProductTrial(
    int64_t, int64_t, int64_t, const Strided<double>&, const Strided<double>&,
    int);

// Matmuls with quantized weights, stored in rows of blocks as in their files. A task
// dequantizes a few thousand numbers at a time into its thread's scratch, and multiplies
// those: the bits are those of a matmul with all numbers as floats.
//
//   const BlockMatrix w(launch.inputs[1], *launch.attrs);
//   QuantizedProduct<T>(pool, m, x, w, /*transposed=*/true, y, scratch);

/// Dequantizes numbers [first, first + count) of a row. Precondition: whole blocks.
template <typename T>
void ReadNumbers(const BlockMatrix& w, int64_t row, int64_t first,
                 int64_t count, T* to);

/// Elements of scratch per thread of QuantizedProduct with blocks of `type`.
template <typename T>
int64_t QuantizedScratch(WeightType type);

/// y = x w^T with x (m, columns) and y (m, rows), or, not transposed, y = x w with
/// x (m, rows) and y (m, columns). `scratch` has QuantizedScratch elements for each
/// thread of the pool.
template <typename T>
void QuantizedProduct(ThreadPool& pool, int64_t m, Strided<T> x,
                      const BlockMatrix& w, bool transposed, Rows<T> y,
                      T* scratch);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_GEMM_H_
