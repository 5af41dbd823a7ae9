// loop and cond run launches, not kernels: what runs these runs theirs
// (cpu/exchange_thread.h). What stand_in stands for is not known: there is nothing to run,
// and a session refuses it.

#include "cpu/kernel.h"

namespace stowage::cpu::kernels {

constinit const CpuKernel Loop = {};
constinit const CpuKernel Cond = {};
constinit const CpuKernel StandIn = {};

}  // namespace stowage::cpu::kernels
