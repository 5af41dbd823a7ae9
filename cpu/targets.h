#ifndef STOWAGE_CPU_TARGETS_H_
#define STOWAGE_CPU_TARGETS_H_

// Lists and selects the CPU targets of a build. A CPU target is an instruction set for which the
// build compiles all kernels.
//
// The default build has one target, "native", which is the processor named by the compiler's flags
// (-march=native). A build with --config=portable has four targets. "v2", "v3" and "v4" are the
// levels of the x86-64 psABI with SSE4.2, AVX2 and AVX-512. "v4-bf16" adds kernels that multiply
// bf16 with AVX512-BF16 (cpu/kernels/kernel_table.h). A build with --config=armv8 has "armv8"
// (NEON), which every AArch64 processor can run. By default, a process uses the highest target that
// its processor supports. The environment variable STOWAGE_CPU_TARGET selects another target for
// the process, and CpuOptions::target does so for one backend.
//
// The results of a target are bit-identical for any plan and any number of threads. Two targets may
// round differently and may need workspaces of different sizes.
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
  bool runs = false;  // Whether this processor can run the target.
};

/// Returns the targets of this build, lowest first. The lowest target runs on every processor
/// that can run the build.
std::span<const CpuTarget> CpuTargets();

/// Returns the target called `name`. If `name` is empty, returns the target that the environment
/// variable STOWAGE_CPU_TARGET names. The variable is read only once per process. If it is unset or
/// empty, returns the highest target that this processor can run. Returns kInvalidArgument if this
/// build has no target of that name or this processor cannot run it. The message lists the valid
/// names.
Result<const CpuTarget*> FindCpuTarget(std::string_view name = {});

/// Implements FindCpuTarget for any list of targets and any value of the environment variable. At
/// least one of `targets` must have `runs` set.
Result<const CpuTarget*> ChooseCpuTarget(std::span<const CpuTarget> targets,
                                         std::string_view name,
                                         std::string_view variable);

/// Returns the target of this process, FindCpuTarget(). If that is an error, returns the
/// highest target that this processor can run.
const CpuTarget& RunningCpuTarget();

/// Returns a description of the target of this process, such as "v4 (AVX-512) of v2, v3, v4,
/// v4-bf16". The part from "of" lists the targets of the build, and is omitted if there is only
/// one. Propagates errors of FindCpuTarget.
Result<std::string> DescribeCpuTarget();

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_TARGETS_H_
