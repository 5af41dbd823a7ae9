// assign, lerp_update, slice_update: in place of params and states.

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
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

StepCode RunLerpUpdate(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, T, T, T>(
        launch, pool,
        [](int64_t n, int64_t, T* y, const T* target, const T* x,
           const T* weight) {
          ForEachVec<T>(n, [&](auto at) {
            const Vec<T> from = at.Load(target);
            at.Store(y, from + at.Load(weight) * (at.Load(x) - from));
          });
        });
  });
  return StepCode::kOk;
}

StepCode RunSliceUpdate(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  const int axis = static_cast<int>(launch.attrs->Int("axis"));
  const int64_t first = launch.attrs->Int("start") * y.strides[axis];
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
