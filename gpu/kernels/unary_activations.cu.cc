// Activation functions; the formulas are math/activations.h's.

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
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
#undef STOWAGE_NUMBER_FN

}  // namespace

namespace kernels {

constinit const GpuKernel Relu = {.enqueue = EnqueueFloats<ReluFn, 1>};
constinit const GpuKernel Silu = {.enqueue = EnqueueFloats<SiluFn, 1>};
constinit const GpuKernel Sigmoid = {.enqueue = EnqueueFloats<SigmoidFn, 1>};
constinit const GpuKernel Tanh = {.enqueue = EnqueueFloats<TanhFn, 1>};
constinit const GpuKernel GeluTanh = {.enqueue = EnqueueFloats<GeluTanhFn, 1>};
constinit const GpuKernel GeluErf = {.enqueue = EnqueueFloats<GeluErfFn, 1>};

}  // namespace kernels
}  // namespace stowage::gpu
