// What stand_in stands for is not known: there is nothing to run, and a session
// refuses it.

#include "gpu/kernel.h"

namespace stowage::gpu::kernels {

constinit const GpuKernel StandIn = {};

}  // namespace stowage::gpu::kernels
