#include "cpu/kernels/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/vec.h"
#include "math/weight_blocks.h"

namespace stowage::cpu {
namespace {

// The element at (p, j) as it is wanted, one by one.
template <typename T>
void PackEach(int64_t k, int64_t n, Strided<T> b, T* packed, int64_t row) {
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) {
      packed[p * row + j] = b.data[p * b.row + j * b.column];
    }
  }
}

// Columns of b are contiguous: transposes squares of a register's size.
template <typename T>
void PackColumns(int64_t k, int64_t n, Strided<T> b, T* packed, int64_t row) {
  constexpr int kLanes = Vec<T>::kLanes;
  const int64_t whole_k = k - k % kLanes;
  const int64_t whole_n = n - n % kLanes;
  for (int64_t j = 0; j < whole_n; j += kLanes) {
    for (int64_t p = 0; p < whole_k; p += kLanes) {
      TransposeSquare(b.data + p + j * b.column, b.column, packed + p * row + j,
                      row);
    }
  }
  PackEach(k - whole_k, whole_n, b.At(whole_k, 0), packed + whole_k * row, row);
  PackEach(k, n - whole_n, b.At(0, whole_n), packed + whole_n, row);
}

}  // namespace

template <typename T>
void Pack(int64_t k, int64_t n, Strided<T> b, T* packed, int64_t row) {
  if (b.column == 1) {
    for (int64_t p = 0; p < k; ++p) {
      ForEachVec<T>(n, [&](auto at) {
        Vec<T> values = at.Load(b.data + p * b.row);
        values.Store(packed + p * row + at.index);
      });
    }
    return;
  }
  const int64_t used =
      n + (Vec<T>::kLanes - n % Vec<T>::kLanes) % Vec<T>::kLanes;
  for (int64_t p = 0; p < k; ++p) {
    std::fill(packed + p * row + n, packed + p * row + used, T(0));
  }
  if (b.row == 1) {
    PackColumns(k, n, b, packed, row);
  } else {
    PackEach(k, n, b, packed, row);
  }
}

template void Pack(int64_t, int64_t, Strided<float>, float*, int64_t);
template void Pack(int64_t, int64_t, Strided<double>, double*, int64_t);

namespace {

// `size` if at most `most`, else `most` rounded down to a multiple of `unit`, at least one.
int64_t Part(int64_t size, int64_t unit, int64_t most) {
  if (size <= most) return size;
  return std::min(size, std::max<int64_t>(1, most / unit) * unit);
}

// A matmul reduced to at most `work` multiply-adds: first k, in whole blocks of kBlockDepth;
// then columns, in whole strips of any width; then rows, in whole tasks.
template <typename T>
struct Sizes {
  static constexpr int64_t kColumns = 24 * Vec<T>::kLanes;

  Sizes(int64_t of_m, int64_t of_n, int64_t of_k, int64_t work)
      : m(of_m), n(of_n), k(of_k) {
    k = Part(k, kBlockDepth<T>, work / (m * n));
    n = Part(n, kColumns, work / (m * k));
    m = Part(m, kMaxTaskRows, work / (n * k));
  }
  int64_t m, n, k;
};

// Bytes from the first element of (rows, columns) to the end of the last.
template <typename T>
Bytes Span(const Strided<T>& x, int64_t rows, int64_t columns) {
  const int64_t elements =
      1 + (rows - 1) * std::abs(x.row) + (columns - 1) * std::abs(x.column);
  return AlignUp(elements * static_cast<Bytes>(sizeof(T)), kWorkspaceAlignment);
}

template <typename T>
std::vector<Blocking> Candidates(const Sizes<T>& sizes, const Strided<T>& b,
                                 int threads) {
  constexpr int kOther = internal::kStripVecs == 2 ? 3 : 2;
  std::vector<Blocking> candidates = {{}};
  if (b.column == 1) {
    candidates.push_back({.packs = false});
    candidates.push_back({.strip = kOther, .packs = false});
  }
  const int64_t strips = CeilDiv(sizes.n, kStripColumns<T>);
  if (RowsPerTask(sizes.m, strips, threads) < sizes.m) {
    candidates.push_back({.task_rows = 2 * kMaxTaskRows});
  }
  return candidates;
}

}  // namespace

template <typename T>
std::optional<BlockingTrial> ProductTrial(int64_t m, int64_t n, int64_t k,
                                          const Strided<T>& a,
                                          const Strided<T>& b, int threads) {
  if (m * n * k < kMinTrialWork) return std::nullopt;
  Sizes<T> sizes(m, n, k, kTrialWork * threads);
  BlockingTrial trial;
  trial.key = {sizeof(T), threads, m, n, k, a.row, a.column, b.row, b.column};
  const Bytes of_b = Span(b, sizes.k, sizes.n);
  const Bytes scratch =
      threads * StripElements<T>(sizes.k) * static_cast<Bytes>(sizeof(T));
  // Work grows with the number of threads, memory may not: reduce the rows.
  Bytes of_a = 0, of_c = 0;
  for (;; sizes.m = Part(sizes.m, kMaxTaskRows, sizes.m / 2)) {
    of_a = Span(a, sizes.m, sizes.k);
    of_c = AlignUp(sizes.m * n * static_cast<Bytes>(sizeof(T)),
                   kWorkspaceAlignment);
    trial.bytes = of_a + of_b + of_c + scratch;
    if (trial.bytes <= kMaxTrialBytes || sizes.m <= kMaxTaskRows) break;
  }
  trial.candidates = Candidates(sizes, b, threads);
  if (trial.candidates.size() < 2 || trial.bytes > kMaxTrialBytes) {
    return std::nullopt;
  }
  trial.run = [=](std::byte* memory, const Blocking& blocking,
                  ThreadPool& pool) {
    const auto at = [&](Bytes bytes) {
      return reinterpret_cast<T*>(memory + bytes);
    };
    Product<T>(pool, sizes.m, sizes.n, sizes.k, {at(0), a.row, a.column},
               {at(of_a), b.row, b.column}, {at(of_a + of_b), n},
               /*accumulate=*/false, at(of_a + of_b + of_c), blocking);
  };
  return trial;
}

template std::optional<BlockingTrial> ProductTrial(int64_t, int64_t, int64_t,
                                                   const Strided<float>&,
                                                   const Strided<float>&, int);
template std::optional<BlockingTrial> ProductTrial(int64_t, int64_t, int64_t,
                                                   const Strided<double>&,
                                                   const Strided<double>&, int);

namespace {

// Numbers of a row that are dequantized at a time if rows of w run along the depth: a
// multiple of every type's block.
constexpr int64_t kDepth = 256;

// Elements that are dequantized at a time then: a strip of columns.
template <typename T>
constexpr int64_t kPanel = kDepth* kStripColumns<T>;

// Columns of a task if the columns of w are those of y: whole blocks, and whole strips for
// small blocks.
template <typename T>
int64_t GroupColumns(WeightType type) {
  constexpr int64_t kSmall = 32;
  const int64_t block = FormatOf(type).numbers;
  return block > kSmall ? block : std::lcm(kStripColumns<T>, block);
}

// y (m, n) = x w^T for rows [first, first + n) of w, n <= kStripColumns.
template <typename T>
void TransposedTask(int64_t m, int64_t n, Strided<T> x, const BlockMatrix& w,
                    int64_t first, Rows<T> y, T* scratch) {
  T* const numbers = scratch;
  T* const packed = scratch + kPanel<T>;
  for (int64_t p = 0; p < w.columns; p += kDepth) {
    const int64_t depth = std::min(kDepth, w.columns - p);
    for (int64_t j = 0; j < n; ++j) {
      ReadNumbers(w, first + j, p, depth, numbers + j * kDepth);
    }
    for (int64_t d = 0; d < depth; d += kBlockDepth<T>) {
      const int64_t part = std::min(kBlockDepth<T>, depth - d);
      Pack<T>(part, n, {numbers + d, 1, kDepth}, packed, kStripColumns<T>);
      MultiplyStrip<T>(m, n, part, x.At(0, p + d),
                       {packed, kStripColumns<T>, /*padded=*/true}, y,
                       p + d > 0 ? Into::kSum : Into::kNew);
    }
  }
}

// y (m, n) = x w for columns [first, first + n) of w, n <= GroupColumns.
template <typename T>
void StraightTask(int64_t m, int64_t n, Strided<T> x, const BlockMatrix& w,
                  int64_t first, Rows<T> y, T* scratch) {
  const int64_t group = GroupColumns<T>(w.type);
  for (int64_t p = 0; p < w.rows; p += kBlockDepth<T>) {
    const int64_t depth = std::min(kBlockDepth<T>, w.rows - p);
    for (int64_t i = 0; i < depth; ++i) {
      ReadNumbers(w, p + i, first, n, scratch + i * group);
    }
    for (int64_t j = 0; j < n; j += kStripColumns<T>) {
      MultiplyStrip<T>(m, std::min(kStripColumns<T>, n - j), depth, x.At(0, p),
                       {scratch + j, group, /*padded=*/true}, y.At(0, j),
                       p > 0 ? Into::kSum : Into::kNew);
    }
  }
}

}  // namespace

template <typename T>
void ReadNumbers(const BlockMatrix& w, int64_t row, int64_t first,
                 int64_t count, T* to) {
  const auto* from = reinterpret_cast<const uint8_t*>(
      w.data + row * w.row_bytes + BytesOf(w.type, first));
  T* const end = to + count;
  const auto put = [&to](int i, float number) { to[i] = T{number}; };
  switch (w.type) {
#define STOWAGE_WEIGHT_TYPE(name, numbers, bytes)         \
  case WeightType::k##name:                               \
    for (; to != end; to += (numbers), from += (bytes)) { \
      math::name(from, put);                              \
    }                                                     \
    return;
#include "ir/weight_types.def"
  }
}

template <typename T>
int64_t QuantizedScratch(WeightType type) {
  return std::max(2 * kPanel<T>, kBlockDepth<T> * GroupColumns<T>(type));
}

template <typename T>
void QuantizedProduct(ThreadPool& pool, int64_t m, Strided<T> x,
                      const BlockMatrix& w, bool transposed, Rows<T> y,
                      T* scratch) {
  const int64_t n = transposed ? w.rows : w.columns;
  const int64_t columns =
      transposed ? kStripColumns<T> : GroupColumns<T>(w.type);
  const int64_t groups = CeilDiv(n, columns);
  const int64_t task_rows = RowsPerTask(m, groups, pool.threads());
  pool.ParallelFor(
      CeilDiv(m, task_rows) * groups, [&](int64_t task, int thread) {
        const int64_t column = task % groups * columns;
        const int64_t row = task / groups * task_rows;
        const auto run = transposed ? TransposedTask<T> : StraightTask<T>;
        run(std::min(task_rows, m - row), std::min(columns, n - column),
            x.At(row, 0), w, column, y.At(row, column),
            scratch + thread * QuantizedScratch<T>(w.type));
      });
}

template void ReadNumbers(const BlockMatrix&, int64_t, int64_t, int64_t,
                          float*);
template void ReadNumbers(const BlockMatrix&, int64_t, int64_t, int64_t,
                          double*);
template int64_t QuantizedScratch<float>(WeightType);
template int64_t QuantizedScratch<double>(WeightType);
template void QuantizedProduct(ThreadPool&, int64_t, Strided<float>,
                               const BlockMatrix&, bool, Rows<float>, float*);
template void QuantizedProduct(ThreadPool&, int64_t, Strided<double>,
                               const BlockMatrix&, bool, Rows<double>, double*);

}  // namespace stowage::cpu
