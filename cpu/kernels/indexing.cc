// take_along_axis, put_add. For put_add a task owns some of the outer parts, and adds
// the updates of each in their order.

#include <algorithm>
#include <cstring>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/indices.h"
#include "ir/lines.h"

namespace stowage::cpu {
namespace {

StepCode RunTakeAlongAxis(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& indices = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const int64_t axis = launch.attrs->Int("axis");
  const Lines from = Lines::Along(x.shape(), axis);
  const Lines to = Lines::Along(y.shape(), axis);
  return OnIndex(indices.dtype(), [&](auto index_zero) {
    const auto* index = indices.as<const decltype(index_zero)>();
    if (!InRange(index, indices.size(), from.length)) {
      return StepCode::kIndexOutOfRange;
    }
    OnWidth(x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      // A row: the elements next to each other, at one place along the axis.
      ParallelRanges(pool, to.outer * to.length, RowsPerChunk(to.inner),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t row = begin; row < end; ++row) {
                         const auto* at = index + row * to.inner;
                         const T* part = x.as<const T>() + row / to.length *
                                                               from.length *
                                                               from.inner;
                         T* result = y.as<T>() + row * to.inner;
                         for (int64_t j = 0; j < to.inner; ++j) {
                           result[j] = part[at[j] * from.inner + j];
                         }
                       }
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
  const int64_t axis = launch.attrs->Int("axis");
  const Lines to = Lines::Along(y.shape(), axis);
  const Lines from = Lines::Along(indices.shape(), axis);
  return OnIndex(indices.dtype(), [&](auto index_zero) {
    const auto* index = indices.as<const decltype(index_zero)>();
    if (!InRange(index, indices.size(), to.length)) {
      return StepCode::kIndexOutOfRange;
    }
    const int64_t part = to.length * to.inner;
    const int64_t put = from.length * from.inner;
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
            for (int64_t i = begin * put; i < end * put; ++i) {
              const int64_t place = index[i] * to.inner + i % to.inner;
              AddTo(y.as<T>()[i / put * part + place],
                    updates.as<const T>()[i]);
            }
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
}  // namespace stowage::cpu
