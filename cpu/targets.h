#ifndef STOWAGE_CPU_TARGETS_H_
#define STOWAGE_CPU_TARGETS_H_

// CPU targets: the instruction sets that the kernels of a build are compiled for.
//
// The default build has one target, "native": the processor that the compiler's flags name
// (-march=native). A build with --config=portable has four: "v2", "v3" and "v4", the levels of
// the x86-64 psABI with SSE4.2, AVX2 and AVX-512, and "v4-bf16", which is "v4" but for matmuls
// and convolutions of bf16, by AVX512-BF16 (cpu/kernels/bf16_gemm.h). One with --config=armv8
// has "armv8", which every AArch64 processor runs, with NEON. Each process runs the highest
// one that its processor has, unless the environment variable STOWAGE_CPU_TARGET names another.
// CpuOptions::target names one for a single backend.
//
// Results of a target are the same bits for any plan and any number of threads. Two targets
// may round differently, and need different scratch.
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
  /// This processor has the target's instructions.
  bool runs = false;
};

/// The targets of this build, the lowest first. The lowest runs wherever the build does.
std::span<const CpuTarget> CpuTargets();

/// The target called `name`. Of an empty name: the one that STOWAGE_CPU_TARGET names, which
/// is read once, or without it the highest that this processor runs.
/// Errors, kInvalidArgument, list the names that work: an unknown name, or one of another
/// architecture; a target that this processor cannot run.
Result<const CpuTarget*> FindCpuTarget(std::string_view name = {});

/// FindCpuTarget for any list of targets and any value of the variable.
Result<const CpuTarget*> ChooseCpuTarget(std::span<const CpuTarget> targets,
                                         std::string_view name,
                                         std::string_view variable);

/// The target of this process, FindCpuTarget(). Where that is an error, which every
/// backend returns, it is the highest target that this processor runs.
const CpuTarget& RunningCpuTarget();

/// The target of this process and those of this build, "v4 (AVX-512) of v2, v3, v4, v4-bf16".
/// Error: FindCpuTarget's.
Result<std::string> DescribeCpuTarget();

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_TARGETS_H_
