// glu, activation(gate) * up, and its gradient; the formulas are
// math/activations.h's.

#include <cstdint>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "math/activations.h"

namespace stowage::gpu {
namespace {

#define STOWAGE_GATE(Name)                    \
  struct Name {                               \
    template <typename N>                     \
    static STOWAGE_DEVICE N Of(N x) {         \
      return math::Name(x);                   \
    }                                         \
    template <typename N>                     \
    static STOWAGE_DEVICE N Derivative(N x) { \
      return math::Name##Derivative(x);       \
    }                                         \
  };
STOWAGE_GATE(Silu)
STOWAGE_GATE(GeluTanh)
STOWAGE_GATE(GeluErf)
#undef STOWAGE_GATE

// f of the activation that the attribute names, in the order of GluActivation.
template <typename F>
void OnActivation(const Launch& launch, const F& f) {
  switch (launch.attrs->Int("activation")) {
    case 0:
      return f(Silu());
    case 1:
      return f(GeluTanh());
    default:
      return f(GeluErf());
  }
}

template <typename A>
struct GluFn {
  template <typename N>
  STOWAGE_DEVICE N operator()(N gate, N up) const {
    return A::Of(gate) * up;
  }
};

void EnqueueGlu(const Launch& launch, Queue& queue) {
  OnActivation(launch, [&](auto activation) {
    EnqueueFloats<GluFn<decltype(activation)>, 2>(launch, queue);
  });
}

constexpr int kThreads = 256;

struct GradParams {
  const void* gate;
  const void* up;
  const void* dy;
  void* dgate;
  void* dup;
  int64_t n;
};

// The gradients at `i` and what follows, kWidth of them. All is read before
// anything is written: dgate may lie over an operand.
template <typename A, typename T, int kWidth>
STOWAGE_DEVICE void GradAt(const GradParams& p, int64_t i) {
  const auto gate = LoadElements<T, kWidth>(static_cast<const T*>(p.gate) + i);
  const auto up = LoadElements<T, kWidth>(static_cast<const T*>(p.up) + i);
  const auto dy = LoadElements<T, kWidth>(static_cast<const T*>(p.dy) + i);
  Elements<T, kWidth> dgate, dup;
  STOWAGE_UNROLL
  for (int j = 0; j < kWidth; ++j) {
    const auto g = ToNumber(gate.value[j]);
    const auto d = ToNumber(dy.value[j]);
    dgate.value[j] =
        FromNumber<T>(d * ToNumber(up.value[j]) * A::Derivative(g));
    dup.value[j] = FromNumber<T>(d * A::Of(g));
  }
  StoreElements(static_cast<T*>(p.dgate) + i, dgate);
  StoreElements(static_cast<T*>(p.dup) + i, dup);
}

template <typename A, typename T, bool kPacked>
STOWAGE_KERNEL(kThreads)
GluGradKernel(STOWAGE_PARAMS(GradParams) p) {
  constexpr int kWidth = kPacked ? kPackSize<T> : 1;
  const int64_t thread = int64_t{BlockId()} * kThreads + ThreadId();
  const int64_t whole = p.n / kWidth;
  if (thread < whole) GradAt<A, T, kWidth>(p, thread * kWidth);
  if (kPacked && thread < p.n - whole * kWidth) {
    GradAt<A, T, 1>(p, whole * kWidth + thread);
  }
}

void EnqueueGluGrad(const Launch& launch, Queue& queue) {
  const GradParams p = {.gate = launch.inputs[0].data,
                        .up = launch.inputs[1].data,
                        .dy = launch.inputs[2].data,
                        .dgate = launch.outputs[0].data,
                        .dup = launch.outputs[1].data,
                        .n = launch.outputs[0].size()};
  const bool packed = IsPackAligned(p.gate) && IsPackAligned(p.up) &&
                      IsPackAligned(p.dy) && IsPackAligned(p.dgate) &&
                      IsPackAligned(p.dup);
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    OnActivation(launch, [&](auto activation) {
      using A = decltype(activation);
      // Enough threads for the last elements, too, which are fewer than a pack.
      const int64_t width = packed ? kPackSize<T> : 1;
      LaunchKernel(
          queue, "glu_grad",
          packed ? GluGradKernel<A, T, true> : GluGradKernel<A, T, false>, p,
          {.x = BlocksFor((p.n + width - 1) / width, kThreads)}, kThreads);
    });
  });
}

}  // namespace

namespace kernels {

constinit const GpuKernel Glu = {.enqueue = EnqueueGlu};
constinit const GpuKernel GluGrad = {.enqueue = EnqueueGluGrad};

}  // namespace kernels
}  // namespace stowage::gpu
