#ifndef STOWAGE_CPU_KERNELS_GEMM_H_
#define STOWAGE_CPU_KERNELS_GEMM_H_

// Provides the matmuls of the CPU kernels: the inner loops, matmuls on the thread pool (with float
// and with quantized weights), and the trials by which the autotuner finds the blocking of a matmul
// (cpu/blocking.h).
//
//   const int64_t strip = StripElements<T>(k);  // Scratch: strip * threads elements.
//   Product<T>(pool, m, n, k, a, b, c, /*accumulate=*/false, scratch);
//
// The inner loops compute blocks of c. A block has up to kBlockRows rows and the columns of one
// strip, which are a few registers. It stays in registers while the loop runs over k.
//
// These loops replace Eigen's matmul, which allocates its packing blocks on the heap. Eigen's
// matmul is also slower than these loops on the shapes of a small transformer
// (docs/archive/2026-11-27-cpu-products.md). These loops broadcast elements of a, so they need not
// pack a.
//
// Each element of c is computed by one chain of multiply-adds in the order of k, whichever strip or
// block contains it. The chain begins at 0 or continues from c, or its sum is added to c (see
// Into). The bits of a result therefore do not depend on tile sizes or threads. They depend on
// where k is divided into several calls, unless each chain continues the previous one.
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

/// An operand that is read one number at a time. Element (i, j) is at data[i * row + j * column].
/// At(i, j) returns the operand that begins at element (i, j).
template <typename T>
struct Strided {
  const T* data;
  int64_t row;
  int64_t column;

  Strided At(int64_t i, int64_t j) const {
    return {data + i * row + j * column, row, column};
  }
};

/// An operand whose rows are contiguous and `row` elements apart. If `padded` is true, the last
/// register of a row may be read as a whole, beyond the row's end.
template <typename T>
struct Rows {
  T* data;
  int64_t row;
  bool padded = false;

  Rows At(int64_t i, int64_t j) const {
    return {data + i * row + j, row, padded};
  }
};

/// Specifies how a result is combined with the previous value of c.
enum class Into {
  kNew,    // c = a b.
  kChain,  // c + a b, where the chain of each element continues from c.
  // c + a b, where a b is rounded before it is added to c. If a long sum is computed in this way,
  // one range of k at a time, its rounding error is smaller than that of one long chain.
  kSum,
};
/// Returns kChain if `accumulate` is true, and otherwise kNew.
inline Into Chains(bool accumulate) {
  return accumulate ? Into::kChain : Into::kNew;
}

/// Terms that are added to each complete element of c: first `row`, which all rows of c share, then
/// `matrix`, which has the shape of c. The element is rounded after each addition. Either pointer
/// may be null.
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

// 32 registers hold at most 8 x 3 sums, 3 registers of b and one of a. 16 registers hold 4 x 3
// sums. With AVX-512, 8 x 2 sums keep the multipliers busy and let one block begin while the
// previous one ends. In addition, a strip of 2 registers more often divides a row whose length is a
// power of 2.
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

/// The default number of columns in a strip (cpu/blocking.h).
template <typename T>
inline constexpr int64_t kStripColumns = internal::kStripVecs* Vec<T>::kLanes;
/// The maximum number of columns in a strip.
template <typename T>
inline constexpr int64_t kMaxStripColumns =
    internal::kMaxStripVecs* Vec<T>::kLanes;

namespace internal {

enum class Tail {
  kNone,    // The width of the strip is a whole number of registers.
  kPadded,  // The last register is partly used. b may be read past it.
  kExact,   // The last register is partly used.
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
  // Prefetches only a few elements of a. Its rows may be far apart and map to the same few sets
  // of the L1 cache, which hold no more.
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
  // Loops over sums are unrolled. Otherwise the sums would not stay in registers.
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

// Computes the remaining rows in successively smaller blocks.
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

/// Computes the matmul of a (m, k) and b (k, n), combines it with c (m, n) as `into` specifies, and
/// adds `finish`. Requires 1 <= n <= kMaxStripColumns and m >= 1.
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

/// Computes c (m, n) = a (m, k) b (k, n) for any n, strip by strip. If `accumulate` is true, the
/// chains continue from c.
template <typename T>
void Multiply(int64_t m, int64_t n, int64_t k, Strided<T> a, Rows<const T> b,
              Rows<T> c, bool accumulate) {
  for (int64_t j = 0; j < n; j += kStripColumns<T>) {
    MultiplyStrip<T>(m, std::min(kStripColumns<T>, n - j), k, a, b.At(0, j),
                     c.At(0, j), Chains(accumulate));
  }
}

/// Copies b (k, n) to rows that are `row` elements apart. `row` must be a multiple of the number of
/// lanes of a register, and at least n. Sets the rest of each row's last register to zero.
template <typename T>
void Pack(int64_t k, int64_t n, Strided<T> b, T* packed, int64_t row);

extern template void Pack(int64_t, int64_t, Strided<float>, float*, int64_t);
extern template void Pack(int64_t, int64_t, Strided<double>, double*, int64_t);

// --- On the thread pool ------------------------------------------------------
//
// A matmul is divided into tasks. A task computes the elements of c in a chunk of rows and a strip
// of columns. Each task packs its own strip of b. This takes a few percent of the task's time, but
// avoids a separate packing pass that ends with a barrier. The scratch is one strip per thread,
// whatever the size of the matmul.
//
// A Blocking changes how the matmul is divided. Packed strips are at most kStripColumns wide,
// so the scratch is the same for every Blocking.

/// The depth (k) of a packed strip. A strip then has 32 KiB on AVX-512.
template <typename T>
inline constexpr int64_t kBlockDepth = 1024 / static_cast<int64_t>(sizeof(T));

/// Returns the number of elements in a packed strip, for a matmul of this depth (k).
template <typename T>
constexpr int64_t StripElements(int64_t depth) {
  return std::min(depth, kBlockDepth<T>) * kStripColumns<T>;
}

inline constexpr int64_t kMaxTaskRows = 256;

/// Returns the number of columns in a strip, which is at most kStripColumns for packed strips.
template <typename T>
int64_t StripColumns(const Blocking& blocking) {
  if (blocking.strip == 0) return kStripColumns<T>;
  const int64_t columns = blocking.strip * Vec<T>::kLanes;
  return blocking.packs ? std::min(columns, kStripColumns<T>) : columns;
}

/// The number of rows of c that are computed together.
inline constexpr int64_t kTileRows = 8;

/// Returns the number of rows in a task. Each chunk of rows is divided into `tasks_per_row_chunk`
/// tasks. The number is large, so that a packed strip is reused often, but small enough for at
/// least 8 tasks and two tasks per thread. It is 32 if these are impossible.
inline int64_t RowsPerTask(int64_t rows, int64_t tasks_per_row_chunk,
                           int threads) {
  constexpr int64_t kMin = 32;
  // With 8 tasks, a task that begins late delays the end only a little.
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

/// Runs one task, which computes c (m, n) = a (m, k) b (k, n), or adds to c if `accumulate` is
/// true. The rows of b are packed if they are not contiguous, or if `packs` (Blocking::packs) is
/// true and m is at least 16. Requires n <= kStripColumns if rows are packed, and otherwise n <=
/// kMaxStripColumns. Ranges of kBlockDepth of k are summed separately, and their sums are added in
/// order. The first sum continues from c if `accumulate` is true. `packed` has StripElements(k)
/// elements. `finish` is added when an element is complete. Then after(i, rows) is called for
/// kTileRows rows of c at a time, while they are in the cache.
template <typename T, typename After = std::nullptr_t>
void ProductTask(int64_t m, int64_t n, int64_t k, Strided<T> a, Strided<T> b,
                 Rows<T> c, bool accumulate, T* packed, bool packs = true,
                 const Finish<T>& finish = {}, const After& after = nullptr) {
  // With fewer rows, packing a strip costs more than it saves.
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

/// Computes c (m, n) = a (m, k) b (k, n) on the pool, or adds to c if `accumulate` is true.
/// `scratch` has StripElements(k) elements for each thread of the pool.
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

/// Returns a trial (cpu/blocking.h) for the matmul of a (m, k) and b (k, n), or of a smaller matmul
/// if this one is large. The trial has the strides of a and b, but does not read their elements.
/// Returns nullopt if the matmul has less work than kMinTrialWork, if the trial would need more
/// than kMaxTrialBytes, or if there is only one candidate.
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

// The functions below read quantized weights, which are stored in rows of blocks as in their files
// (math/weight_blocks.h). A task of a matmul dequantizes a few thousand numbers at a time into its
// thread's scratch, and multiplies them. The result is bit-identical to a matmul whose weights are
// all dequantized first.
//
//   const BlockMatrix w(launch.inputs[1], *launch.attrs);
//   QuantizedProduct<T>(pool, m, x, w, /*transposed=*/true, y, scratch);

/// Dequantizes numbers [first, first + count) of a row of `w` to `to`. The range must consist of
/// whole blocks.
template <typename T>
void ReadNumbers(const BlockMatrix& w, int64_t row, int64_t first,
                 int64_t count, T* to);

/// Returns the number of scratch elements per thread that QuantizedProduct uses for blocks of
/// `type`.
template <typename T>
int64_t QuantizedScratch(WeightType type);

/// Computes y = x w^T with x (m, columns) and y (m, rows) if `transposed` is true. Otherwise
/// computes y = x w with x (m, rows) and y (m, columns). `scratch` has QuantizedScratch
/// elements for each thread of the pool.
template <typename T>
void QuantizedProduct(ThreadPool& pool, int64_t m, Strided<T> x,
                      const BlockMatrix& w, bool transposed, Rows<T> y,
                      T* scratch);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_GEMM_H_
