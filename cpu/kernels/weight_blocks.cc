#include "cpu/kernels/weight_blocks.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "base/check.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/product.h"
#include "math/weight_blocks.h"

namespace stowage::cpu {
namespace {

// Numbers of a row that are read at a time where rows lie along the depth: a multiple
// of every type's block.
constexpr int64_t kDepth = 256;

// What is read at a time: a strip's columns, so deep.
template <typename T>
constexpr int64_t kPanel = kDepth* kStripColumns<T>;

// Columns that a task has where the columns of w are those of y: whole strips, and
// whole blocks.
template <typename T>
int64_t GroupColumns(WeightType type) {
  return std::lcm(kStripColumns<T>, FormatOf(type).numbers);
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
    Pack<T>(depth, n, {numbers, 1, kDepth}, packed, kStripColumns<T>);
    MultiplyStrip<T>(m, n, depth, x.At(0, p),
                     {packed, kStripColumns<T>, /*padded=*/true}, y, p > 0);
  }
}

// y (m, n) = x w for columns [first, first + n) of w, n <= GroupColumns.
template <typename T>
void StraightTask(int64_t m, int64_t n, Strided<T> x, const BlockMatrix& w,
                  int64_t first, Rows<T> y, T* scratch) {
  const int64_t group = GroupColumns<T>(w.type);
  const int64_t most = kPanel<T> / group;
  for (int64_t p = 0; p < w.rows; p += most) {
    const int64_t depth = std::min(most, w.rows - p);
    for (int64_t i = 0; i < depth; ++i) {
      ReadNumbers(w, p + i, first, n, scratch + i * group);
    }
    for (int64_t j = 0; j < n; j += kStripColumns<T>) {
      MultiplyStrip<T>(m, std::min(kStripColumns<T>, n - j), depth, x.At(0, p),
                       {scratch + j, group, /*padded=*/true}, y.At(0, j),
                       p > 0);
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
int64_t QuantizedScratch() {
  return 2 * kPanel<T>;
}

template <typename T>
void QuantizedProduct(ThreadPool& pool, int64_t m, Strided<T> x,
                      const BlockMatrix& w, bool transposed, Rows<T> y,
                      T* scratch) {
  const int64_t n = transposed ? w.rows : w.columns;
  const int64_t columns =
      transposed ? kStripColumns<T> : GroupColumns<T>(w.type);
  STOWAGE_CHECK(columns <= kPanel<T>);
  const int64_t groups = CeilDiv(n, columns);
  const int64_t task_rows = RowsPerTask(m, groups);
  pool.ParallelFor(
      CeilDiv(m, task_rows) * groups, [&](int64_t task, int thread) {
        const int64_t column = task % groups * columns;
        const int64_t row = task / groups * task_rows;
        const auto run = transposed ? TransposedTask<T> : StraightTask<T>;
        run(std::min(task_rows, m - row), std::min(columns, n - column),
            x.At(row, 0), w, column, y.At(row, column),
            scratch + thread * QuantizedScratch<T>());
      });
}

template void ReadNumbers(const BlockMatrix&, int64_t, int64_t, int64_t,
                          float*);
template void ReadNumbers(const BlockMatrix&, int64_t, int64_t, int64_t,
                          double*);
template int64_t QuantizedScratch<float>();
template int64_t QuantizedScratch<double>();
template void QuantizedProduct(ThreadPool&, int64_t, Strided<float>,
                               const BlockMatrix&, bool, Rows<float>, float*);
template void QuantizedProduct(ThreadPool&, int64_t, Strided<double>,
                               const BlockMatrix&, bool, Rows<double>, double*);

}  // namespace stowage::cpu
