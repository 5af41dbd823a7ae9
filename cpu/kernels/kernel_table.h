#ifndef STOWAGE_CPU_KERNELS_KERNEL_TABLE_H_
#define STOWAGE_CPU_KERNELS_KERNEL_TABLE_H_

// The table of the kernels of one compilation. The sources of cpu/kernels are compiled once
// for each CPU target (cpu/targets.h), and what is compiled for one target runs by the
// kernels of that target alone.
//
//   const CpuKernel::BlockFn block = OwnKernel(OpKind::kGeluTanhGrad).block;

#include "cpu/kernel.h"
#include "ir/op_kind.h"

// The table's name, by which the library finds it; that of the baseline where a build has
// several (cpu/BUILD).
#ifndef STOWAGE_CPU_KERNEL_TABLE
#define STOWAGE_CPU_KERNEL_TABLE stowage_cpu_kernels
#endif

/// With the name that objects have for it, which the linker is given (cpu/cpu_target.bzl).
extern "C" const stowage::cpu::KernelTable STOWAGE_CPU_KERNEL_TABLE;

namespace stowage::cpu {

/// The kernel of an op in this table, for kernels that run by others.
inline const CpuKernel& OwnKernel(OpKind op) {
  return GetKernel(op, STOWAGE_CPU_KERNEL_TABLE);
}

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_KERNELS_KERNEL_TABLE_H_
