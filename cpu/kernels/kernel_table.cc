#include "cpu/kernels/kernel_table.h"

#include <array>
#include <string_view>

#include "cpu/kernel.h"

namespace stowage::cpu {
namespace {

#if defined(__AVX512F__)
[[maybe_unused]] constexpr std::string_view kVectors = "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
[[maybe_unused]] constexpr std::string_view kVectors = "AVX2";
#elif defined(__aarch64__)
[[maybe_unused]] constexpr std::string_view kVectors = "NEON";
#else
[[maybe_unused]] constexpr std::string_view kVectors = "SSE";
#endif

constexpr std::array<const CpuKernel*, kNumOps> kOfOps = {
#define STOWAGE_OP(kind, name) &kernels::kind,
#include "ir/ops.def"
#undef STOWAGE_OP
};

#ifdef STOWAGE_CPU_BF16_PAIRS
constexpr std::array<const CpuKernel*, kNumOps> WithPairs() {
  auto of_ops = kOfOps;
#define STOWAGE_CPU_BF16_KERNEL(op) \
  of_ops[static_cast<size_t>(OpKind::k##op)] = &bf16_kernels::op;
  STOWAGE_CPU_BF16_KERNELS(STOWAGE_CPU_BF16_KERNEL)
#undef STOWAGE_CPU_BF16_KERNEL
  return of_ops;
}

constexpr KernelTable kByPairs = {.vectors = "AVX512-BF16",
                                  .of_op = WithPairs(),
                                  .widened = &kernels::Widened};
#endif

}  // namespace
}  // namespace stowage::cpu

constinit const stowage::cpu::KernelTable STOWAGE_CPU_KERNEL_TABLE =
#ifdef __AVX512BF16__
    stowage::cpu::kByPairs;
#else
    {.vectors = stowage::cpu::kVectors,
     .of_op = stowage::cpu::kOfOps,
     .widened = &stowage::cpu::kernels::Widened,
#ifdef STOWAGE_CPU_BF16_PAIRS
     .by_pairs = &stowage::cpu::kByPairs
#endif
};
#endif

namespace stowage::cpu::kernels {

// loop and cond have no kernel: LaunchList runs their bodies. stand_in has none either; a
// session refuses it.
constinit const CpuKernel Loop = {};
constinit const CpuKernel Cond = {};
constinit const CpuKernel StandIn = {};

}  // namespace stowage::cpu::kernels
