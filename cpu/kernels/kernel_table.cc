#include "cpu/kernels/kernel_table.h"

#include <string_view>

#include "cpu/widened.h"

namespace stowage::cpu {
namespace {

#if defined(__AVX512F__)
constexpr std::string_view kVectors = "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
constexpr std::string_view kVectors = "AVX2";
#elif defined(__aarch64__)
constexpr std::string_view kVectors = "NEON";
#else
constexpr std::string_view kVectors = "SSE";
#endif

}  // namespace
}  // namespace stowage::cpu

constinit const stowage::cpu::KernelTable STOWAGE_CPU_KERNEL_TABLE = {
    .vectors = stowage::cpu::kVectors,
    .of_op =
        {
#define STOWAGE_OP(kind, name) &stowage::cpu::kernels::kind,
#include "ir/ops.def"
#undef STOWAGE_OP
        },
    .widened = &stowage::cpu::kernels::Widened,
};
