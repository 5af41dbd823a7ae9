// A loop is the launches of its body (gpu/enqueue.h), a cond is refused (gpu/kernel.cc).

#include "gpu/kernel.h"

namespace stowage::gpu::kernels {

constinit const GpuKernel Loop = {};
constinit const GpuKernel Cond = {};

}  // namespace stowage::gpu::kernels
