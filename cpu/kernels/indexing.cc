// take_along_axis, put_add. For put_add a task owns some of the outer parts, and adds
// the updates of each in their order.

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/strided.h"
#include "cpu/kernels/vec.h"
#include "ir/element_groups.h"

namespace stowage::cpu {

namespace {

StepCode RunTakeAlongAxis(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& indices = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const auto axis = static_cast<int>(launch.attrs->Int("axis"));
  const int64_t step = x.strides[axis];
  const Strides lines = StepsToLines(x.strides, axis);
  const StridedWalk<2> walk(y.shape(), {&indices.strides, &lines});
  return OnIndex(indices.dtype(), [&](auto index_zero) {
    using Index = decltype(index_zero);
    if (!InRange<Index>(indices, x.shape()[axis])) {
      return StepCode::kIndexOutOfRange;
    }
    OnWidth(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      ParallelRanges(
          pool, y.size(), kChunkElements, [&](int64_t begin, int64_t end) {
            walk.Runs(begin, end,
                      [&](int64_t first, const auto& offsets, int64_t count) {
                        const Index* at = indices.as<const Index>();
                        const T* from = x.as<const T>() + offsets[1];
                        T* to = y.as<T>() + first;
                        for (int64_t i = 0; i < count; ++i) {
                          const int64_t index =
                              at[offsets[0] + i * walk.inner(0)];
                          to[i] = from[i * walk.inner(1) + index * step];
                        }
                      });
          });
    });
    return StepCode::kOk;
  });
}

StepCode RunPutAdd(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& base = launch.inputs[0];
  const TensorView& indices = launch.inputs[1];
  const TensorView& updates = launch.inputs[2];
  const TensorView& y = launch.outputs[0];
  const auto axis = static_cast<int>(launch.attrs->Int("axis"));
  const int64_t step = y.strides[axis];
  const Strides lines = StepsToLines(y.strides, axis);
  const StridedWalk<3> walk(indices.shape(),
                            {&indices.strides, &updates.strides, &lines});
  const AxisLines to = AxisLines::Along(y.shape(), axis);
  const int64_t part = to.length * to.inner;
  const int64_t put = indices.size() / to.outer;
  return OnIndex(indices.dtype(), [&](auto index_zero) {
    using Index = decltype(index_zero);
    if (!InRange<Index>(indices, to.length)) {
      return StepCode::kIndexOutOfRange;
    }
    OnNumber(y.dtype(), [&](auto zero) {
      using T = decltype(zero);
      ParallelRanges(
          pool, to.outer, RowsPerChunk(part + put),
          [&](int64_t begin, int64_t end) {
            if (y.data != base.data) {
              std::memcpy(
                  y.as<T>() + begin * part, base.as<const T>() + begin * part,
                  static_cast<size_t>((end - begin) * part) * sizeof(T));
            }
            walk.Runs(begin * put, end * put,
                      [&](int64_t, const auto& offsets, int64_t count) {
                        const Index* at = indices.as<const Index>();
                        const T* from = updates.as<const T>();
                        T* line = y.as<T>() + offsets[2];
                        for (int64_t i = 0; i < count; ++i) {
                          const int64_t index =
                              at[offsets[0] + i * walk.inner(0)];
                          AddTo(line[i * walk.inner(2) + index * step],
                                from[offsets[1] + i * walk.inner(1)]);
                        }
                      });
          });
    });
    return StepCode::kOk;
  });
}

}  // namespace

namespace kernels {

constinit const CpuKernel TakeAlongAxis = {.run = RunTakeAlongAxis,
                                           .supports = SupportsAll};
constinit const CpuKernel PutAdd = {.run = RunPutAdd,
                                    .supports = SupportsNumbers};

}  // namespace kernels

// gather, scatter_add: rows of a table (V, C...), contiguous.

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

// A task has a range of columns of a range of table rows and reads all updates, so each sum
// has the order of the updates.
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

// f16 and bf16: each row of the table with updates is summed in f32, in their order, and
// rounded once. `order` receives the updates, sorted by row.
template <typename Index>
void AddHalfRows(const TensorView& y, const Index* index,
                 const TensorView& updates, int64_t* order, int64_t count,
                 ThreadPool& pool) {
  const DType half = y.dtype();
  const int64_t columns = RowSize(y);
  const int64_t bands = CeilDiv(columns, kColumnsPerTask);
  const bool worthwhile = count * columns >= kChunkElements;
  const int64_t ranges =
      worthwhile ? std::min(count, CeilDiv(kTasks, bands)) : 1;
  std::iota(order, order + count, int64_t{0});
  std::sort(order, order + count, [index](int64_t a, int64_t b) {
    return index[a] != index[b] ? index[a] < index[b] : a < b;
  });
  // The first update, from `i` on, of a row that none before it is of.
  const auto first_of_row = [&](int64_t i) {
    while (i > 0 && i < count && index[order[i]] == index[order[i - 1]]) ++i;
    return i;
  };
  pool.ParallelFor(bands * ranges, [&](int64_t task, int) {
    const int64_t column = task % bands * kColumnsPerTask;
    const int64_t n = std::min(kColumnsPerTask, columns - column);
    const int64_t range = task / bands;
    const int64_t end = first_of_row(count * (range + 1) / ranges);
    std::array<float, kColumnsPerTask> sums, update;
    for (int64_t i = first_of_row(count * range / ranges); i < end;) {
      const Index row = index[order[i]];
      std::byte* const to = y.data + 2 * (row * columns + column);
      Widen(half, n, to, 1, sums.data());
      for (; i < end && index[order[i]] == row; ++i) {
        Widen(half, n, updates.data + 2 * (order[i] * columns + column), 1,
              update.data());
        for (size_t j = 0; j < static_cast<size_t>(n); ++j)
          sums[j] += update[j];
      }
      Narrow(half, n, sums.data(), to);
    }
  });
}

Bytes ScatterAddWorkspace(const OpArgs& args, std::span<const TensorType>,
                          int) {
  if (!IsHalf(args.type(0).dtype)) return 0;
  return AlignUp(args.shape(1).num_elements() * SizeOf(DType::kI64),
                 kWorkspaceAlignment);
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
    if (IsHalf(y.dtype())) {
      AddHalfRows(y, index, updates,
                  reinterpret_cast<int64_t*>(launch.workspace.data()),
                  indices.size(), pool);
      return StepCode::kOk;
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
                                        .workspace = ScatterAddWorkspace,
                                        .supports = SupportsAll};

}  // namespace kernels

// assign, lerp_update, slice_update: in place of params and states.

namespace {

StepCode RunAssign(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  CopyStrided(y.shape(), SizeOf(y.dtype()), x.data, x.strides, y.data,
              y.strides, pool);
  return StepCode::kOk;
}

// math::SkipsUpdate, lane by lane.
template <typename T>
Vec<T> Skips(Vec<T> weight) {
  const Vec<T> most = Vec<T>::All(std::numeric_limits<T>::max());
  return most < Select(weight < Vec<T>::Zero(), -weight, weight);
}

StepCode RunLerpUpdate(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, T, T, T>(launch, pool,
                            [](int64_t n, int64_t, T* y, const T* target,
                               const T* x, const T* weight) {
                              ForEachVec<T>(n, [&](auto at) {
                                const Vec<T> from = at.Load(target);
                                const Vec<T> part = at.Load(weight);
                                const Vec<T> moved =
                                    from + part * (at.Load(x) - from);
                                at.Store(y, Select(Skips(part), from, moved));
                              });
                            });
  });
  return StepCode::kOk;
}

StepCode RunSliceUpdate(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const int axis = static_cast<int>(launch.attrs->Int("axis"));
  int64_t start = launch.attrs->Int("start");
  if (launch.inputs.size() == 3) {
    const TensorView& from = launch.inputs[2];
    const int64_t places = y.shape()[axis] - x.shape()[axis] - start + 1;
    const bool is_there = OnIndex(from.dtype(), [&](auto zero) {
      const auto* index = from.as<const decltype(zero)>();
      start += *index;
      return InRange(index, 1, places);
    });
    if (!is_there) return StepCode::kIndexOutOfRange;
  }
  const int64_t first = start * y.strides[axis];
  CopyStrided(x.shape(), SizeOf(y.dtype()), x.data, x.strides,
              y.data + first * SizeOf(y.dtype()), y.strides, pool);
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Assign = {.run = RunAssign, .supports = SupportsAll};
constinit const CpuKernel LerpUpdate = {.run = RunLerpUpdate,
                                        .supports = SupportsAll};
constinit const CpuKernel SliceUpdate = {.run = RunSliceUpdate,
                                         .supports = SupportsAll};

}  // namespace kernels

}  // namespace stowage::cpu
