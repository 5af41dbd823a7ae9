#ifndef STOWAGE_CPU_KERNELS_BF16_KERNELS_H_
#define STOWAGE_CPU_KERNELS_BF16_KERNELS_H_

// The kernels that multiply bf16 by pairs (bf16_gemm.h). In the table of a target with
// AVX512-BF16 each takes the place of its op's kernel, whose functions it calls for all other
// types.
//
//   constinit const CpuKernel Attention =
//       Bf16Kernel<kernels::Attention, RunByPairs, WorkspaceByPairs>();

#include <span>

#include "cpu/kernel.h"
#include "cpu/kernels/bf16_gemm.h"
#include "cpu/kernels/dispatch.h"
#include "ir/tensor_type.h"

#ifdef STOWAGE_CPU_BF16_PAIRS

/// Calls what(op) for each op that has such a kernel.
#define STOWAGE_CPU_BF16_KERNELS(what)                                  \
  what(Attention) what(AttentionGrad) what(AttentionQkvGrad) what(Conv) \
      what(ConvTranspose) what(ConvWeightGrad) what(EpilogueMatMul)     \
          what(FusedMatMul) what(LinearCrossEntropy)                    \
              what(LinearCrossEntropyGrad) what(MatMul)

namespace stowage::cpu {

/// CpuKernel::supports of a kernel of f32, f64 and bf16.
inline bool SupportsBf16(const OpArgs& args) {
  const DType dtype = args.type(0).dtype;
  return dtype == DType::kBF16 || IsComputedFloat(dtype);
}

/// The kernel kOther, in which kRun and kWorkspace are for operand 0 of bf16.
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

#endif  // STOWAGE_CPU_KERNELS_BF16_KERNELS_H_
