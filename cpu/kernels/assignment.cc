// assign, lerp_update, slice_update: in place of params and states.

#include <limits>

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/movement.h"
#include "cpu/kernels/vec.h"

namespace stowage::cpu {
namespace {

StepCode RunAssign(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  CopyStrided(y.shape(), SizeOf(y.dtype()), x.data, x.strides, y.data,
              y.strides, pool);
  return StepCode::kOk;
}

// As math::SkipsUpdate says, lane by lane.
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
