// Activation functions and their gradients; the formulas are
// math/activations.h's.

#include "math/activations.h"

#include <cmath>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"

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
#undef STOWAGE_NUMBER_FN

struct ReluGradFn {
  STOWAGE_DEVICE float operator()(float y, float dy) const {
    return y > 0 ? dy : 0.0f;
  }
};
// The derivative at x, or from y, times dy.
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
#undef STOWAGE_GRAD_FN

}  // namespace

namespace kernels {

constinit const GpuKernel Relu = {.enqueue = EnqueueFloats<ReluFn, 1>};
constinit const GpuKernel Silu = {.enqueue = EnqueueFloats<SiluFn, 1>};
constinit const GpuKernel Sigmoid = {.enqueue = EnqueueFloats<SigmoidFn, 1>};
constinit const GpuKernel Tanh = {.enqueue = EnqueueFloats<TanhFn, 1>};
constinit const GpuKernel GeluTanh = {.enqueue = EnqueueFloats<GeluTanhFn, 1>};
constinit const GpuKernel GeluErf = {.enqueue = EnqueueFloats<GeluErfFn, 1>};

constinit const GpuKernel ReluGrad = {.enqueue = EnqueueFloats<ReluGradFn, 2>};
constinit const GpuKernel SigmoidGrad = {.enqueue =
                                             EnqueueFloats<SigmoidGradFn, 2>};
constinit const GpuKernel TanhGrad = {.enqueue = EnqueueFloats<TanhGradFn, 2>};
constinit const GpuKernel SiluGrad = {.enqueue = EnqueueFloats<SiluGradFn, 2>};
constinit const GpuKernel GeluTanhGrad = {.enqueue =
                                              EnqueueFloats<GeluTanhGradFn, 2>};
constinit const GpuKernel GeluErfGrad = {.enqueue =
                                             EnqueueFloats<GeluErfGradFn, 2>};

}  // namespace kernels
}  // namespace stowage::gpu
