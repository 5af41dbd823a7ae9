// Ops without a kernel: views do no work, and what stand_in stands for is not
// known, so that a session refuses it.

#include "gpu/kernel.h"

namespace stowage::gpu::kernels {

constinit const GpuKernel Reshape = {};
constinit const GpuKernel Permute = {};
constinit const GpuKernel Slice = {};
constinit const GpuKernel Split = {};
constinit const GpuKernel Broadcast = {};

constinit const GpuKernel StandIn = {};

}  // namespace stowage::gpu::kernels
