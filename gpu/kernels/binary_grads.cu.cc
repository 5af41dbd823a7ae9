// Gradients of activation functions; the formulas are math/activations.h's.

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/elementwise_attrs.h"
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
constinit const GpuKernel MishGrad = {.enqueue = EnqueueFloats<MishGradFn, 2>};
constinit const GpuKernel HardSwishGrad = {
    .enqueue = EnqueueFloats<HardSwishGradFn, 2>};
constinit const GpuKernel LeakyReluGrad = {
    .enqueue = EnqueueWithAttrs<LeakyReluGradFn, 2>};
constinit const GpuKernel EluGrad = {.enqueue = EnqueueWithAttrs<EluGradFn, 2>};
constinit const GpuKernel ClampGrad = {.enqueue =
                                           EnqueueWithAttrs<ClampGradFn, 2>};

}  // namespace kernels
}  // namespace stowage::gpu
