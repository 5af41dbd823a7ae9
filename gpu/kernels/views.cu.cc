// Views own no bytes: there is nothing to run.

#include "gpu/kernel.h"

namespace stowage::gpu::kernels {

constinit const GpuKernel Reshape = {};
constinit const GpuKernel Permute = {};
constinit const GpuKernel Slice = {};
constinit const GpuKernel Split = {};
constinit const GpuKernel Broadcast = {};
constinit const GpuKernel StopGradient = {};

}  // namespace stowage::gpu::kernels
