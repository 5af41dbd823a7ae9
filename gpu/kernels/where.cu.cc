// where: a choice between two operands, of any element type.

#include <cstdint>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"

namespace stowage::gpu {
namespace {

struct WhereFn {
  template <typename T>
  STOWAGE_DEVICE T operator()(uint8_t condition, T a, T b) const {
    return condition != 0 ? a : b;
  }
};

void EnqueueWhere(const Launch& launch, Queue& queue) {
  OnWidth(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    EnqueueMap<WhereFn, T, uint8_t, T, T>(
        "where", queue, launch.outputs[0],
        {&launch.inputs[0], &launch.inputs[1], &launch.inputs[2]});
  });
}

}  // namespace

namespace kernels {

constinit const GpuKernel Where = {.enqueue = EnqueueWhere,
                                   .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu
