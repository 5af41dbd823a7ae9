#ifndef STOWAGE_CPU_KERNELS_KERNEL_TABLE_H_
#define STOWAGE_CPU_KERNELS_KERNEL_TABLE_H_

// Declares the kernel table of one CPU target (KernelTable in cpu/kernel.h), and the kernels that
// replace others in the table of a target with AVX512-BF16. The sources of cpu/kernels are compiled
// once for each CPU target (cpu/targets.h). A kernel must call only kernels of its own target, by
// OwnKernel.
//
//   const CpuKernel::BlockFn block = OwnKernel(OpKind::kGeluTanhGrad).block;

#include <span>

#include "cpu/kernel.h"
#include "cpu/kernels/bf16_gemm.h"
#include "cpu/kernels/dispatch.h"
#include "ir/op_kind.h"
#include "ir/tensor_type.h"

// The symbol name of the table. cpu/cpu_target.bzl sets it for targets other than the lowest.
#ifndef STOWAGE_CPU_KERNEL_TABLE
#define STOWAGE_CPU_KERNEL_TABLE stowage_cpu_kernels
#endif

/// The table is extern "C" because cpu/cpu_target.bzl passes its name to the linker.
extern "C" const stowage::cpu::KernelTable STOWAGE_CPU_KERNEL_TABLE;

namespace stowage::cpu {

/// Returns the kernel of an op in this target's table, for kernels that call other kernels.
inline const CpuKernel& OwnKernel(OpKind op) {
  return GetKernel(op, STOWAGE_CPU_KERNEL_TABLE);
}

}  // namespace stowage::cpu

// Kernels that multiply pairs of bf16 elements (bf16_gemm.h). In the table of a target with
// AVX512-BF16, each of them replaces the kernel of its op. It calls the replaced kernel for types
// other than bf16.
//
//   constinit const CpuKernel Attention =
//       Bf16Kernel<kernels::Attention, RunByPairs, WorkspaceByPairs>();

#ifdef STOWAGE_CPU_BF16_PAIRS

/// Calls what(op) for each op that has a bf16 kernel.
#define STOWAGE_CPU_BF16_KERNELS(what)                                  \
  what(Attention) what(AttentionGrad) what(AttentionQkvGrad) what(Conv) \
      what(ConvTranspose) what(ConvWeightGrad) what(EpilogueMatMul)     \
          what(FusedMatMul) what(LinearCrossEntropy)                    \
              what(LinearCrossEntropyGrad) what(MatMul)

namespace stowage::cpu {

/// Implements CpuKernel::supports for kernels that accept f32, f64 and bf16 as operand 0.
inline bool SupportsBf16(const OpArgs& args) {
  const DType dtype = args.type(0).dtype;
  return dtype == DType::kBF16 || IsComputedFloat(dtype);
}

/// Returns a kernel that runs by kRun and kWorkspace if operand 0 is bf16, and by the `run` and
/// `workspace` of kOther otherwise. kOther must have a `workspace`. Its other functions are not
/// copied.
template <const CpuKernel& kOther, CpuKernel::RunFn kRun,
          CpuKernel::WorkspaceFn kWorkspace>
constexpr CpuKernel Bf16Kernel(CpuKernel::SupportsFn supports = SupportsBf16) {
  CpuKernel kernel;
  kernel.run = [](const Launch& launch, ThreadPool& pool) noexcept {
    const bool is_bf16 = launch.inputs[0].dtype() == DType::kBF16;
    return (is_bf16 ? kRun : kOther.run)(launch, pool);
  };
  kernel.workspace = [](const OpArgs& args, std::span<const TensorType> results,
                        int threads) {
    const bool is_bf16 = args.type(0).dtype == DType::kBF16;
    return (is_bf16 ? kWorkspace : kOther.workspace)(args, results, threads);
  };
  kernel.supports = supports;
  return kernel;
}

namespace bf16_kernels {
#define STOWAGE_CPU_BF16_KERNEL(op) extern const CpuKernel op;
STOWAGE_CPU_BF16_KERNELS(STOWAGE_CPU_BF16_KERNEL)
#undef STOWAGE_CPU_BF16_KERNEL
}  // namespace bf16_kernels

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_BF16_PAIRS

#endif  // STOWAGE_CPU_KERNELS_KERNEL_TABLE_H_
