// loop, cond and stand_in have no kernel: loop and cond run the launches of their bodies
// (gpu/enqueue.h), and a session refuses stand_in.

#include "gpu/kernel.h"

namespace stowage::gpu::kernels {

constinit const GpuKernel Loop = {};
constinit const GpuKernel Cond = {};
constinit const GpuKernel StandIn = {};

}  // namespace stowage::gpu::kernels
