// Activation functions; the formulas are math/activations.h's.

#include <cmath>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/elementwise_attrs.h"
#include "math/activations.h"

namespace stowage::gpu {
namespace {

// NaN stays NaN.
struct ReluFn {
  STOWAGE_DEVICE float operator()(float x) const { return x <= 0 ? 0.0f : x; }
};
// Accurate in every type: RoughFloat's has no digits left next to 0.
struct TanhFn {
  STOWAGE_DEVICE float operator()(float x) const { return math::Tanh(x); }
};

// f of x as the type `name`.
#define STOWAGE_NUMBER_FN(name, expression)  \
  struct name {                              \
    template <typename N>                    \
    STOWAGE_DEVICE N operator()(N x) const { \
      return expression;                     \
    }                                        \
  };
STOWAGE_NUMBER_FN(SiluFn, math::Silu(x))
STOWAGE_NUMBER_FN(SigmoidFn, math::Sigmoid(x))
STOWAGE_NUMBER_FN(GeluTanhFn, math::GeluTanh(x))
STOWAGE_NUMBER_FN(GeluErfFn, math::GeluErf(x))
STOWAGE_NUMBER_FN(HardSwishFn, math::HardSwish(x))
#undef STOWAGE_NUMBER_FN
// Accurate in every type: left of 0 they are about as small as e^x.
struct SoftplusFn {
  STOWAGE_DEVICE float operator()(float x) const {
    const float rest = ::log1pf(::expf(-::fabsf(x)));
    return x <= 0 ? rest : x + rest;
  }
};
struct MishFn {
  STOWAGE_DEVICE float operator()(float x) const { return math::Mish(x); }
};

// NaN stays NaN.
struct LeakyReluFn {
  explicit LeakyReluFn(const Attrs& attrs)
      : slope(Number(attrs, "slope")), unused(0) {}
  STOWAGE_DEVICE float operator()(float x) const {
    return x <= 0 ? x * slope : x;
  }
  float slope, unused;
};
struct EluFn {
  explicit EluFn(const Attrs& attrs)
      : alpha(Number(attrs, "alpha")), scale(Number(attrs, "scale")) {}
  STOWAGE_DEVICE float operator()(float x) const {
    return scale * (x <= 0 ? alpha * ::expm1f(x) : x);
  }
  float alpha, scale;
};
struct ClampFn {
  explicit ClampFn(const Attrs& attrs)
      : min(Number(attrs, "min")), max(Number(attrs, "max")) {}
  STOWAGE_DEVICE float operator()(float x) const {
    return x < min ? min : max < x ? max : x;
  }
  float min, max;
};

}  // namespace

namespace kernels {

constinit const GpuKernel Relu = {.enqueue = EnqueueFloats<ReluFn, 1>};
constinit const GpuKernel Silu = {.enqueue = EnqueueFloats<SiluFn, 1>};
constinit const GpuKernel Sigmoid = {.enqueue = EnqueueFloats<SigmoidFn, 1>};
constinit const GpuKernel Tanh = {.enqueue = EnqueueFloats<TanhFn, 1>};
constinit const GpuKernel GeluTanh = {.enqueue = EnqueueFloats<GeluTanhFn, 1>};
constinit const GpuKernel GeluErf = {.enqueue = EnqueueFloats<GeluErfFn, 1>};
constinit const GpuKernel Softplus = {.enqueue = EnqueueFloats<SoftplusFn, 1>};
constinit const GpuKernel Mish = {.enqueue = EnqueueFloats<MishFn, 1>};
constinit const GpuKernel HardSwish = {.enqueue =
                                           EnqueueFloats<HardSwishFn, 1>};
constinit const GpuKernel LeakyRelu = {.enqueue =
                                           EnqueueWithAttrs<LeakyReluFn, 1>};
constinit const GpuKernel Elu = {.enqueue = EnqueueWithAttrs<EluFn, 1>};
constinit const GpuKernel Clamp = {.enqueue = EnqueueWithAttrs<ClampFn, 1>};

}  // namespace kernels
}  // namespace stowage::gpu
