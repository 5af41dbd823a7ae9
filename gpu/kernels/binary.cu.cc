// Elementwise kernels of two or more operands: arithmetic, comparisons, logic, gradients of
// activation functions, and where.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "math/activations.h"
#include "math/portable.h"

namespace stowage::gpu {
namespace {

// Integers wrap around: they are computed as unsigned, for which that is defined. 64 bits
// hold the product of any two narrower operands.
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

// NaN if either is.
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

// --- Comparisons and logic, with bool results --------------------------------

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

// --- Gradients of activation functions (math/activations.h) ------------------

struct ReluGradFn {
  STOWAGE_DEVICE float operator()(float y, float dy) const {
    return y > 0 ? dy : 0.0f;
  }
};
// dy times the derivative at x, or from y.
#define STOWAGE_GRAD_FN(name, derivative)          \
  struct name {                                    \
    template <typename N>                          \
    STOWAGE_DEVICE N operator()(N x, N dy) const { \
      return dy * derivative(x);                   \
    }                                              \
  };
STOWAGE_GRAD_FN(SigmoidGradFn, math::SigmoidDerivativeFromOutput)
STOWAGE_GRAD_FN(TanhGradFn, math::TanhDerivativeFromOutput)
STOWAGE_GRAD_FN(SiluGradFn, math::SiluDerivative)
STOWAGE_GRAD_FN(GeluTanhGradFn, math::GeluTanhDerivative)
STOWAGE_GRAD_FN(GeluErfGradFn, math::GeluErfDerivative)
STOWAGE_GRAD_FN(HardSwishGradFn, math::HardSwishDerivative)
#undef STOWAGE_GRAD_FN
// Accurate in every type, as mish is.
struct MishGradFn {
  STOWAGE_DEVICE float operator()(float x, float dy) const {
    return dy * math::MishDerivative(x);
  }
};
struct LeakyReluGradFn {
  explicit LeakyReluGradFn(const Attrs& attrs)
      : slope(Number(attrs, "slope")), unused(0) {}
  STOWAGE_DEVICE float operator()(float y, float dy) const {
    return y > 0 ? dy : dy * slope;
  }
  float slope, unused;
};
struct EluGradFn {
  explicit EluGradFn(const Attrs& attrs)
      : alpha(Number(attrs, "alpha")), scale(Number(attrs, "scale")) {}
  STOWAGE_DEVICE float operator()(float y, float dy) const {
    return dy * math::EluDerivativeFromOutput(y, alpha, scale);
  }
  float alpha, scale;
};
struct ClampGradFn {
  explicit ClampGradFn(const Attrs& attrs)
      : min(Number(attrs, "min")), max(Number(attrs, "max")) {}
  STOWAGE_DEVICE float operator()(float y, float dy) const {
    return y <= min || max <= y ? 0.0f : dy;
  }
  float min, max;
};

// --- where, of any element type ----------------------------------------------

struct WhereFn {
  template <typename T>
  STOWAGE_DEVICE T operator()(uint8_t condition, T a, T b) const {
    return condition != 0 ? a : b;
  }
};

void EnqueueWhere(const Launch& launch, Queue& queue) {
  OnWidth(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    EnqueueMap<WhereFn, T, uint8_t, T, T>(
        "where", queue, launch.outputs[0],
        {&launch.inputs[0], &launch.inputs[1], &launch.inputs[2]});
  });
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

constinit const GpuKernel Equal = ComparisonKernel<EqualFn>();
constinit const GpuKernel NotEqual = ComparisonKernel<NotEqualFn>();
constinit const GpuKernel Less = ComparisonKernel<LessFn>();
constinit const GpuKernel LessEqual = ComparisonKernel<LessEqualFn>();
constinit const GpuKernel Greater = ComparisonKernel<GreaterFn>();
constinit const GpuKernel GreaterEqual = ComparisonKernel<GreaterEqualFn>();
constinit const GpuKernel LogicalAnd = LogicKernel<AndFn>();
constinit const GpuKernel LogicalOr = LogicKernel<OrFn>();

constinit const GpuKernel ReluGrad = {.enqueue = EnqueueFloats<ReluGradFn, 2>};
constinit const GpuKernel SigmoidGrad = {.enqueue =
                                             EnqueueFloats<SigmoidGradFn, 2>};
constinit const GpuKernel TanhGrad = {.enqueue = EnqueueFloats<TanhGradFn, 2>};
constinit const GpuKernel SiluGrad = {.enqueue = EnqueueFloats<SiluGradFn, 2>};
constinit const GpuKernel GeluTanhGrad = {.enqueue =
                                              EnqueueFloats<GeluTanhGradFn, 2>};
constinit const GpuKernel GeluErfGrad = {.enqueue =
                                             EnqueueFloats<GeluErfGradFn, 2>};
constinit const GpuKernel MishGrad = {.enqueue = EnqueueFloats<MishGradFn, 2>};
constinit const GpuKernel HardSwishGrad = {
    .enqueue = EnqueueFloats<HardSwishGradFn, 2>};
constinit const GpuKernel LeakyReluGrad = {
    .enqueue = EnqueueWithAttrs<LeakyReluGradFn, 2>};
constinit const GpuKernel EluGrad = {.enqueue = EnqueueWithAttrs<EluGradFn, 2>};
constinit const GpuKernel ClampGrad = {.enqueue =
                                           EnqueueWithAttrs<ClampGradFn, 2>};

constinit const GpuKernel Where = {.enqueue = EnqueueWhere,
                                   .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu
