// Elementwise kernels of two operands: arithmetic.

#include <cmath>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "math/portable.h"

namespace stowage::gpu {
namespace {

// Integers wrap around: computed unsigned, where that is defined. 64 bits hold
// the product of any two narrower operands.
template <typename T>
STOWAGE_DEVICE uint64_t Bits(T x) {
  return static_cast<uint64_t>(x);
}

#define STOWAGE_ARITHMETIC_FN(name, op)            \
  struct name {                                    \
    template <typename N>                          \
    STOWAGE_DEVICE N operator()(N a, N b) const {  \
      if constexpr (std::is_integral_v<N>) {       \
        return static_cast<N>(Bits(a) op Bits(b)); \
      } else {                                     \
        return a op b;                             \
      }                                            \
    }                                              \
  };
STOWAGE_ARITHMETIC_FN(AddFn, +)
STOWAGE_ARITHMETIC_FN(SubFn, -)
STOWAGE_ARITHMETIC_FN(MulFn, *)
#undef STOWAGE_ARITHMETIC_FN

// NaN where either is.
struct MaximumFn {
  template <typename N>
  STOWAGE_DEVICE N operator()(N a, N b) const {
    return a <= b ? b : b < a ? a : static_cast<N>(a + b);
  }
};
struct MinimumFn {
  template <typename N>
  STOWAGE_DEVICE N operator()(N a, N b) const {
    return a <= b ? a : b < a ? b : static_cast<N>(a + b);
  }
};
struct DivFn {
  STOWAGE_DEVICE float operator()(float a, float b) const { return a / b; }
};
struct PowFn {
  STOWAGE_DEVICE float operator()(float a, float b) const {
    return ::powf(a, b);
  }
};

struct RemainderFn {
  STOWAGE_DEVICE float operator()(float a, float b) const {
    return math::Remainder(a, b);
  }
};
struct FmodFn {
  STOWAGE_DEVICE float operator()(float a, float b) const {
    return ::fmodf(a, b);
  }
};

template <typename F>
constexpr GpuKernel NumberKernel() {
  return {.enqueue = EnqueueNumbers<F, 2>, .supports = SupportsNumbers};
}

}  // namespace

namespace kernels {

constinit const GpuKernel Add = NumberKernel<AddFn>();
constinit const GpuKernel Sub = NumberKernel<SubFn>();
constinit const GpuKernel Mul = NumberKernel<MulFn>();
constinit const GpuKernel Div = {.enqueue = EnqueueFloats<DivFn, 2>};
constinit const GpuKernel Pow = {.enqueue = EnqueueFloats<PowFn, 2>};
constinit const GpuKernel Maximum = NumberKernel<MaximumFn>();
constinit const GpuKernel Minimum = NumberKernel<MinimumFn>();
constinit const GpuKernel Remainder = {.enqueue =
                                           EnqueueFloats<RemainderFn, 2>};
constinit const GpuKernel Fmod = {.enqueue = EnqueueFloats<FmodFn, 2>};

}  // namespace kernels
}  // namespace stowage::gpu
