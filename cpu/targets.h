#ifndef STOWAGE_CPU_TARGETS_H_
#define STOWAGE_CPU_TARGETS_H_

// CPU targets: the instruction sets for which the kernels of a build are compiled.
//
// The default build has one target, "native": the processor named by the compiler's flags
// (-march=native). A build with --config=portable has four: "v2", "v3" and "v4", the levels
// of the x86-64 psABI with SSE4.2, AVX2 and AVX-512, and "v4-bf16", which adds matmuls and
// convolutions of bf16 by AVX512-BF16 (cpu/kernels/bf16_gemm.h). A build with --config=armv8
// has "armv8" (NEON), which every AArch64 processor runs. A process runs the highest target
// that its processor supports, unless the environment variable STOWAGE_CPU_TARGET or, for
// one backend, CpuOptions::target names another.
//
// Results of a target are the same bits for any plan and any number of threads. Two targets
// may round differently and need different scratch.
//
//   const Result<const CpuTarget*> target = FindCpuTarget("v3");
//   if (!target.ok()) return target.error();
//   const CpuKernel& kernel = GetKernel(node.op, *(*target)->kernels);

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cpu/kernel.h"

namespace stowage::cpu {

struct CpuTarget {
  std::string_view name;
  const KernelTable* kernels = nullptr;
  bool runs = false;  // on this processor
};

/// The targets of this build, the lowest first. The lowest runs wherever the build does.
std::span<const CpuTarget> CpuTargets();

/// The target called `name`; for an empty name, that of STOWAGE_CPU_TARGET, which is read
/// once, or the highest that this processor runs. Error kInvalidArgument, for an unknown
/// name or a target that this processor cannot run; it lists the valid names.
Result<const CpuTarget*> FindCpuTarget(std::string_view name = {});

/// FindCpuTarget for any list of targets and any value of the variable.
Result<const CpuTarget*> ChooseCpuTarget(std::span<const CpuTarget> targets,
                                         std::string_view name,
                                         std::string_view variable);

/// The target of this process, FindCpuTarget(); if that is an error, the highest target that
/// this processor runs.
const CpuTarget& RunningCpuTarget();

/// The target of this process and those of this build, "v4 (AVX-512) of v2, v3, v4, v4-bf16".
/// Error: FindCpuTarget's.
Result<std::string> DescribeCpuTarget();

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_TARGETS_H_
