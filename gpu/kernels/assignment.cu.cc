// assign, lerp_update, slice_update: in place of params and states.

#include <cstddef>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/movement.h"

namespace stowage::gpu {
namespace {

struct LerpFn {
  STOWAGE_DEVICE float operator()(float target, float x, float weight) const {
    return target + weight * (x - target);
  }
};

void EnqueueAssign(const Launch& launch, Queue& queue) {
  CopyStrided("assign", queue, launch.outputs[0], launch.inputs[1]);
}

void EnqueueLerpUpdate(const Launch& launch, Queue& queue) {
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    EnqueueMap<LerpFn, T, T, T, T>(
        "lerp_update", queue, launch.outputs[0],
        {&launch.inputs[0], &launch.inputs[1], &launch.inputs[2]});
  });
}

void EnqueueSliceUpdate(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[1];
  TensorView part = launch.outputs[0];
  const auto axis = static_cast<int>(launch.attrs->Int("axis"));
  part.data +=
      launch.attrs->Int("start") * part.strides[axis] * SizeOf(part.dtype());
  part.type.shape = x.shape();
  CopyStrided("slice_update", queue, part, x);
}

}  // namespace

namespace kernels {

constinit const GpuKernel Assign = {.enqueue = EnqueueAssign,
                                    .supports = SupportsAll};
constinit const GpuKernel LerpUpdate = {.enqueue = EnqueueLerpUpdate};
constinit const GpuKernel SliceUpdate = {.enqueue = EnqueueSliceUpdate,
                                         .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu
