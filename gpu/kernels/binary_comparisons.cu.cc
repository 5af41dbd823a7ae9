// Comparisons, which give bool, and logic.

#include <cstdint>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"

namespace stowage::gpu {
namespace {

#define STOWAGE_COMPARISON_FN(name, op)              \
  struct name {                                      \
    template <typename N>                            \
    STOWAGE_DEVICE bool operator()(N a, N b) const { \
      return a op b;                                 \
    }                                                \
  };
STOWAGE_COMPARISON_FN(EqualFn, ==)
STOWAGE_COMPARISON_FN(NotEqualFn, !=)
STOWAGE_COMPARISON_FN(LessFn, <)
STOWAGE_COMPARISON_FN(LessEqualFn, <=)
STOWAGE_COMPARISON_FN(GreaterFn, >)
STOWAGE_COMPARISON_FN(GreaterEqualFn, >=)
#undef STOWAGE_COMPARISON_FN

struct AndFn {
  STOWAGE_DEVICE bool operator()(uint8_t a, uint8_t b) const {
    return (a != 0) & (b != 0);
  }
};
struct OrFn {
  STOWAGE_DEVICE bool operator()(uint8_t a, uint8_t b) const {
    return (a | b) != 0;
  }
};

template <typename F>
void EnqueueComparison(const Launch& launch, Queue& queue) {
  OnNumber(launch.inputs[0].dtype(), [&](auto zero) {
    EnqueueLike<F, uint8_t, decltype(zero), 2>(launch, queue);
  });
}

template <typename F>
constexpr GpuKernel ComparisonKernel() {
  return {.enqueue = EnqueueComparison<F>, .supports = SupportsNumbers};
}
template <typename F>
constexpr GpuKernel LogicKernel() {
  return {.enqueue = EnqueueLike<F, uint8_t, uint8_t, 2>,
          .supports = SupportsAll};
}

}  // namespace

namespace kernels {

constinit const GpuKernel Equal = ComparisonKernel<EqualFn>();
constinit const GpuKernel NotEqual = ComparisonKernel<NotEqualFn>();
constinit const GpuKernel Less = ComparisonKernel<LessFn>();
constinit const GpuKernel LessEqual = ComparisonKernel<LessEqualFn>();
constinit const GpuKernel Greater = ComparisonKernel<GreaterFn>();
constinit const GpuKernel GreaterEqual = ComparisonKernel<GreaterEqualFn>();
constinit const GpuKernel LogicalAnd = LogicKernel<AndFn>();
constinit const GpuKernel LogicalOr = LogicKernel<OrFn>();

}  // namespace kernels
}  // namespace stowage::gpu
