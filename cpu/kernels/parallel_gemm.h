#ifndef STOWAGE_CPU_KERNELS_PARALLEL_GEMM_H_
#define STOWAGE_CPU_KERNELS_PARALLEL_GEMM_H_

// Matmuls on the thread pool, of floats and of quantized weights, and the trial by which the
// blocking of a matmul is tuned.
//
// A matmul is divided into tasks (chunk of rows, strip of columns). Each task packs its own
// strip of b, which costs a few percent of the task and saves a second pass with a barrier.
// The scratch is one strip per thread, however large the matmul.
//
//   const int64_t strip = StripElements<T>(k);  // scratch: strip * threads
//   Product<T>(pool, m, n, k, a, b, c, /*accumulate=*/false, scratch);
//
// A Blocking changes how the matmul is divided. Packed strips are at most kStripColumns
// wide, so the scratch is the same for every Blocking.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "cpu/blocking.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/gemm.h"
#include "cpu/thread_pool.h"
#include "ir/weight_type.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

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

/// One task: c (m, n) = a (m, k) b (k, n), or c += with `accumulate`; n <= kStripColumns,
/// or where nothing is packed kMaxStripColumns. `packs` is a Blocking's; what is not
/// contiguous is packed whatever it says. Each kBlockDepth of k is a sum of its own, but
/// that the first goes on from c. `packed` has StripElements(k) elements. What is done behind, `finish` and
/// then after(i, rows) for kTileRows rows of c at a time, finds them in the cache.
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

// By what a product's blocking is found: the product itself, or a part of it, with the
// strides of its operands, on other memory.
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

#endif  // STOWAGE_CPU_KERNELS_PARALLEL_GEMM_H_
