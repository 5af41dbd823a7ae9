// Ops without a kernel: views do no work, and what stand_in stands for is not
// known, so that a session refuses it.

#include "cpu/kernel.h"

namespace stowage::cpu::kernels {

constinit const CpuKernel Reshape = {};
constinit const CpuKernel Permute = {};
constinit const CpuKernel Slice = {};
constinit const CpuKernel Split = {};
constinit const CpuKernel Broadcast = {};

constinit const CpuKernel StandIn = {};

}  // namespace stowage::cpu::kernels
