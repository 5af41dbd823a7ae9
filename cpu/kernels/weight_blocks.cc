#include "cpu/kernels/weight_blocks.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "cpu/kernels/chunks.h"
#include "cpu/kernels/product.h"
#include "math/weight_blocks.h"

namespace stowage::cpu {
namespace {

// Numbers of a row that are read at a time where rows lie along the depth: a multiple
// of every type's block.
constexpr int64_t kDepth = 256;

// What is read at a time then: a strip's columns, so deep.
template <typename T>
constexpr int64_t kPanel = kDepth* kStripColumns<T>;

// Columns that a task has where the columns of w are those of y: whole blocks, and
// whole strips where blocks are small.
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
