#ifndef STOWAGE_CPU_KERNELS_BF16_MATMUL_H_
#define STOWAGE_CPU_KERNELS_BF16_MATMUL_H_

// Runs bf16 matmuls by pairs (bf16_gemm.h) on the thread pool. A task computes a chunk of rows and
// a few strips of columns of one matrix. It processes k in blocks of kPairsDepth, and adds the sum
// of each block to an f32 sum. For each block, it packs its rows of a at most once for all of its
// strips, and each strip of b once for all of its rows. It rounds each f32 sum to bf16 once, when
// the sum is complete.
//
//   RunBf16MatMul(launch, pool, launch.outputs[0], NoTail<float>());

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/bf16_gemm.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/kernel_table.h"
#include "cpu/kernels/matmul.h"
#include "cpu/thread_pool.h"

#ifdef STOWAGE_CPU_BF16_PAIRS

namespace stowage::cpu {

/// The maximum number of strips in a task. The rows of a are packed once for all strips of a task.
inline constexpr int64_t kMaxTaskStrips = 4;

/// The layout of a thread's scratch for matmuls of at most `rows`, `columns` and `depth`:
/// packed rows, a packed strip, and the sums of a task.
class Bf16Scratch {
 public:
  Bf16Scratch(int64_t rows, int64_t columns, int64_t depth)
      : rows_(std::min(rows, kMaxTaskRows)),
        depth_(std::min(depth, kPairsDepth)),
        columns_(std::min(columns, kMaxTaskStrips * kPairsColumns)) {}

  Bytes bytes() const { return packed_rows() + packed_strip() + sums(); }

  uint16_t* packed_rows(std::byte* scratch) const {
    return reinterpret_cast<uint16_t*>(scratch);
  }
  uint32_t* packed_strip(std::byte* scratch) const {
    return reinterpret_cast<uint32_t*>(scratch + packed_rows());
  }
  /// Returns the sums, which are stored strip by strip.
  float* sums(std::byte* scratch) const {
    return reinterpret_cast<float*>(scratch + packed_rows() + packed_strip());
  }
  int64_t sums_of_strip() const { return rows_ * kPairsColumns; }

 private:
  Bytes packed_rows() const {
    return AlignUp(2 * PackedRowsElements(rows_, depth_), kWorkspaceAlignment);
  }
  Bytes packed_strip() const {
    return 4 * PackedColumnsPairs(depth_, std::min(columns_, kPairsColumns));
  }
  Bytes sums() const {
    return 4 * CeilDiv(columns_, kPairsColumns) * sums_of_strip();
  }

  int64_t rows_, depth_, columns_;
};

/// The numbers of rows and strips in a task.
struct Bf16Task {
  int64_t rows;
  int64_t strips;
};

/// Returns a task size for `matrices` matmuls with `rows` rows and `strips` strips each. It gives
/// at least 8 tasks, and two tasks per thread, if the matmuls are large enough.
inline Bf16Task TaskOf(int64_t matrices, int64_t rows, int64_t strips,
                       int threads) {
  Bf16Task task = {RowsPerTask(rows, matrices * strips, threads),
                   kMaxTaskStrips};
  const int64_t wanted = std::max(8, 2 * threads);
  while (task.strips > 1 &&
         matrices * CeilDiv(rows, task.rows) * CeilDiv(strips, task.strips) <
             wanted) {
    task.strips /= 2;
  }
  return task;
}

/// Computes the sums of the matmul of a (m, k) and b (k, n), where n spans at most kMaxTaskStrips
/// strips. Calls done(column, count, sums) when the sums of a strip of `count` columns, starting at
/// `column`, are complete. `sums` has m rows, which are kPairsColumns elements apart.
template <typename Done>
void MultiplyTask(int64_t m, int64_t n, int64_t k, Strided<const uint16_t> a,
                  Strided<const uint16_t> b, const Bf16Scratch& layout,
                  std::byte* scratch, const Done& done) {
  int64_t p = 0;
  do {
    const int64_t depth = std::min(kPairsDepth, k - p);
    const PairRows rows =
        PackRows(m, depth, a.At(0, p), layout.packed_rows(scratch));
    for (int64_t j = 0; j < n; j += kPairsColumns) {
      const int64_t count = std::min(kPairsColumns, n - j);
      const Rows<float> sums = {
          layout.sums(scratch) + j / kPairsColumns * layout.sums_of_strip(),
          kPairsColumns};
      const PairColumns strip =
          PackColumns(depth, count, b.At(p, j), layout.packed_strip(scratch));
      MultiplyPairs(m, count, Pairs(depth), rows, strip, sums,
                    p > 0 ? Into::kSum : Into::kNew);
      if (p + depth == k) done(j, count, sums);
    }
    p += kPairsDepth;
  } while (p < k);
}

/// Computes the sums of the matmul of a (m, k) and b (k, n) on the pool. Calls done(row, column,
/// rows, columns, sums) when the sums of the `rows` by `columns` elements that start at (row,
/// column) are complete. Calls of `done` may be concurrent. `scratch` has layout.bytes() bytes for
/// each thread.
template <typename Done>
void MultiplyBf16(ThreadPool& pool, int64_t m, int64_t n, int64_t k,
                  Strided<const uint16_t> a, Strided<const uint16_t> b,
                  const Bf16Scratch& layout, std::byte* scratch,
                  const Done& done) {
  const int64_t strips = CeilDiv(n, kPairsColumns);
  const Bf16Task cut = TaskOf(1, m, strips, pool.threads());
  const int64_t strip_chunks = CeilDiv(strips, cut.strips);
  pool.ParallelFor(
      CeilDiv(m, cut.rows) * strip_chunks, [&](int64_t task, int thread) {
        const int64_t width = cut.strips * kPairsColumns;
        const int64_t column = task % strip_chunks * width;
        const int64_t row = task / strip_chunks * cut.rows;
        const int64_t rows = std::min(cut.rows, m - row);
        MultiplyTask(rows, std::min(width, n - column), k, a.At(row, 0),
                     b.At(0, column), layout, scratch + thread * layout.bytes(),
                     [&](int64_t j, int64_t count, Rows<float> sums) {
                       done(row, column + j, rows, count, sums);
                     });
      });
}

/// Computes the matmul of the first two operands of `launch`, which are bf16, applies `tail`, and
/// stores the result in `y`. RunProduct describes the functions of `tail` that are called for bf16.
/// For is called once for each strip of a task.
template <typename Tail>
void RunBf16MatMul(const Launch& launch, ThreadPool& pool, const TensorView& y,
                   const Tail& tail) {
  const internal::ProductOf<const uint16_t> all(launch);
  const int64_t strips = CeilDiv(all.columns, kPairsColumns);
  const Bf16Task cut = TaskOf(all.matrices, all.rows, strips, pool.threads());
  const int64_t row_chunks = CeilDiv(all.rows, cut.rows);
  const int64_t strip_chunks = CeilDiv(strips, cut.strips);
  const Bf16Scratch layout(all.matrices * all.rows, all.columns, all.depth);
  pool.ParallelFor(all.matrices * row_chunks * strip_chunks, [&](int64_t task,
                                                                 int thread) {
    const int64_t first = task % strip_chunks * cut.strips * kPairsColumns;
    const int64_t row = task / strip_chunks % row_chunks * cut.rows;
    const int64_t matrix = task / strip_chunks / row_chunks;
    const int64_t m = std::min(cut.rows, all.rows - row);
    const int64_t n = std::min(cut.strips * kPairsColumns, all.columns - first);
    Strided<const uint16_t> a = all.a.matrix.At(row, 0);
    Strided<const uint16_t> b = all.b.matrix.At(0, first);
    a.data += all.a.BatchOffset(matrix);
    b.data += all.b.BatchOffset(matrix);
    const auto done = [&](int64_t j, int64_t count, Rows<float> sums) {
      const int64_t column = first + j;
      const int64_t y_row = matrix * all.rows + row;
      for (int64_t i = 0; i < m; ++i) {
        float* const of_row = sums.At(i, 0).data;
        if constexpr (Tail::kTakesSums) {
          tail.FinishRow(y_row + i, column, count, of_row);
        }
        Narrow(DType::kBF16, count, of_row,
               y.data + 2 * ((y_row + i) * all.columns + column));
      }
      if constexpr (Tail::kTakesRows && !Tail::kTakesSums) {
        const auto after = tail.For(y_row, column, count, m);
        for (int64_t i = 0; i < m; i += kTileRows) {
          after(i, std::min(kTileRows, m - i));
        }
      }
    };
    MultiplyTask(m, n, all.depth, a, b, layout,
                 launch.workspace.data() + thread * layout.bytes(), done);
  });
}

/// Returns the workspace size of RunBf16MatMul.
inline Bytes Bf16MatMulWorkspace(const OpArgs& args,
                                 std::span<const TensorType> results,
                                 int threads) {
  const Shape& a = args.shape(0);
  const int64_t depth =
      a[a.rank() - (args.attrs.Int("transpose_a") == 1 ? 2 : 1)];
  const Shape& y = results[0].shape;
  const Bf16Scratch layout(y.num_elements() / y.back(), y.back(), depth);
  return threads * layout.bytes();
}

/// Returns a kernel that runs by kRun if operand 0 is bf16, and otherwise by the matmul kernel
/// kOther (matmul.h).
template <const CpuKernel& kOther, CpuKernel::RunFn kRun>
constexpr CpuKernel Bf16MatMulKernel() {
  CpuKernel kernel = Bf16Kernel<kOther, kRun, Bf16MatMulWorkspace>(SupportsAll);
  kernel.run_blocked = [](const Launch& launch, ThreadPool& pool,
                          const Blocking& blocking) noexcept {
    const bool is_bf16 = launch.inputs[0].dtype() == DType::kBF16;
    return is_bf16 ? kRun(launch, pool)
                   : kOther.run_blocked(launch, pool, blocking);
  };
  kernel.trial = MatMulTrial;
  return kernel;
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BF16_PAIRS

#endif  // STOWAGE_CPU_KERNELS_BF16_MATMUL_H_
