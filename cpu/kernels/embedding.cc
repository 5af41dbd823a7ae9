// gather, scatter_add: rows of a table (V, C...), contiguous.

#include <cstring>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/indices.h"

namespace stowage::cpu {
namespace {

// Elements of one row of the table.
int64_t RowSize(const TensorView& table) {
  return table.size() / table.shape()[0];
}

StepCode RunGather(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& table = launch.inputs[0];
  const TensorView& indices = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const int64_t columns = RowSize(table);
  const auto row_bytes = columns * SizeOf(table.dtype());
  return OnIndex(indices.dtype(), [&](auto zero) {
    const auto* index = indices.as<const decltype(zero)>();
    if (!InRange(index, indices.size(), table.shape()[0])) {
      return StepCode::kIndexOutOfRange;
    }
    ParallelRanges(pool, indices.size(), RowsPerChunk(columns),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       std::memcpy(y.data + i * row_bytes,
                                   table.data + index[i] * row_bytes,
                                   static_cast<size_t>(row_bytes));
                     }
                   });
    return StepCode::kOk;
  });
}

// A task owns a range of columns of a range of table rows and goes through all
// updates, so each sum is taken in the order of the updates.
constexpr int64_t kColumnsPerTask = 64;
constexpr int64_t kTasks = 8;

template <typename T, typename Index>
void AddRows(const TensorView& y, const Index* index, int64_t updates,
             const T* update, ThreadPool& pool) {
  const int64_t rows = y.shape()[0];
  const int64_t columns = RowSize(y);
  const int64_t bands = CeilDiv(columns, kColumnsPerTask);
  const bool worthwhile = updates * columns >= kChunkElements;
  const int64_t ranges =
      worthwhile ? std::min(rows, CeilDiv(kTasks, bands)) : 1;
  pool.ParallelFor(bands * ranges, [&](int64_t task, int) {
    const int64_t first = task % bands * kColumnsPerTask;
    const int64_t count = std::min(kColumnsPerTask, columns - first);
    const int64_t range = task / bands;
    const int64_t row_begin = rows * range / ranges;
    const int64_t row_end = rows * (range + 1) / ranges;
    for (int64_t i = 0; i < updates; ++i) {
      if (index[i] < row_begin || index[i] >= row_end) continue;
      T* to = y.as<T>() + index[i] * columns + first;
      const T* from = update + i * columns + first;
      for (int64_t j = 0; j < count; ++j) {
        AddTo(to[j], from[j]);
      }
    }
  });
}

StepCode RunScatterAdd(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& base = launch.inputs[0];
  const TensorView& indices = launch.inputs[1];
  const TensorView& updates = launch.inputs[2];
  const TensorView& y = launch.outputs[0];
  return OnIndex(indices.dtype(), [&](auto index_zero) {
    const auto* index = indices.as<const decltype(index_zero)>();
    if (!InRange(index, indices.size(), y.shape()[0])) {
      return StepCode::kIndexOutOfRange;
    }
    if (y.data != base.data) {
      const Bytes piece = kChunkElements * SizeOf(y.dtype());
      ParallelRanges(pool, y.type.bytes(), piece,
                     [&](int64_t begin, int64_t end) {
                       std::memcpy(y.data + begin, base.data + begin,
                                   static_cast<size_t>(end - begin));
                     });
    }
    OnNumber(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      AddRows<T>(y, index, indices.size(), updates.as<const T>(), pool);
    });
    return StepCode::kOk;
  });
}

}  // namespace

namespace kernels {

constinit const CpuKernel Gather = {.run = RunGather, .supports = SupportsAll};
constinit const CpuKernel ScatterAdd = {.run = RunScatterAdd,
                                        .supports = SupportsNumbers};

}  // namespace kernels
}  // namespace stowage::cpu
