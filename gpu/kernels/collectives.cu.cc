// Ranks whose step runs on GPUs are not joined yet: a session refuses these.

#include "gpu/kernel.h"

namespace stowage::gpu::kernels {

constinit const GpuKernel AllReduce = {};
constinit const GpuKernel ReduceScatter = {};
constinit const GpuKernel AllGather = {};
constinit const GpuKernel AllGatherUpdate = {};
constinit const GpuKernel OwnBlock = {};

}  // namespace stowage::gpu::kernels
