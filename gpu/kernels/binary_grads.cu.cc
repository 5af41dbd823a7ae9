// Gradients of activation functions; the formulas are math/activations.h's.

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "math/activations.h"

namespace stowage::gpu {
namespace {

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
