// loop and cond run launches, not kernels: the backend refuses them (gpu/kernel.cc).

#include "gpu/kernel.h"

namespace stowage::gpu::kernels {

constinit const GpuKernel Loop = {};
constinit const GpuKernel Cond = {};

}  // namespace stowage::gpu::kernels
