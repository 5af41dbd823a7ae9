// loop and cond are the launches of their bodies (gpu/enqueue.h).

#include "gpu/kernel.h"

namespace stowage::gpu::kernels {

constinit const GpuKernel Loop = {};
constinit const GpuKernel Cond = {};

}  // namespace stowage::gpu::kernels
