// What stand_in stands for is not known: there is nothing to run, and a session
// refuses it.

#include "cpu/kernel.h"

namespace stowage::cpu::kernels {

constinit const CpuKernel StandIn = {};

}  // namespace stowage::cpu::kernels
