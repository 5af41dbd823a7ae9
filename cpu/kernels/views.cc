// Views own no bytes: there is nothing to run.

#include "cpu/kernel.h"

namespace stowage::cpu::kernels {

constinit const CpuKernel Reshape = {};
constinit const CpuKernel Permute = {};
constinit const CpuKernel Slice = {};
constinit const CpuKernel Split = {};
constinit const CpuKernel Broadcast = {};
constinit const CpuKernel StopGradient = {};

}  // namespace stowage::cpu::kernels
