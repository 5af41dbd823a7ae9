// loop and cond run launches, not kernels: what runs these runs theirs
// (cpu/launch_list.h).

#include "cpu/kernel.h"

namespace stowage::cpu::kernels {

constinit const CpuKernel Loop = {};
constinit const CpuKernel Cond = {};

}  // namespace stowage::cpu::kernels
