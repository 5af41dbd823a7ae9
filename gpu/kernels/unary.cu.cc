// Elementwise kernels of one operand: arithmetic, activation functions, and glu.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "math/activations.h"
#include "math/portable.h"
#include "math/trigonometry.h"

namespace stowage::gpu {
namespace {

// -x, and for the lowest value x itself.
template <typename T>
STOWAGE_DEVICE T Negated(T x) {
  using Unsigned = std::make_unsigned_t<T>;
  return static_cast<T>(Unsigned{0} - static_cast<Unsigned>(x));
}

struct NegFn {
  STOWAGE_DEVICE float operator()(float x) const { return -x; }
  template <typename T>
  STOWAGE_DEVICE T operator()(T x) const requires std::is_integral_v<T> {
    return Negated(x);
  }
};
struct AbsFn {
  STOWAGE_DEVICE float operator()(float x) const { return ::fabsf(x); }
  template <typename T>
  STOWAGE_DEVICE T operator()(T x) const requires std::is_integral_v<T> {
    if constexpr (std::is_signed_v<T>) return x < 0 ? Negated(x) : x;
    return x;
  }
};
// 0 for NaN.
struct SignFn {
  template <typename N>
  STOWAGE_DEVICE N operator()(N x) const {
    if constexpr (std::is_unsigned_v<N>) {
      return x > 0 ? 1 : 0;
    } else {
      return static_cast<N>(int{x > N(0)} - int{x < N(0)});
    }
  }
};

struct ExpFn {
  template <typename N>
  STOWAGE_DEVICE N operator()(N x) const {
    using math::Exp;
    return Exp(x);
  }
};
// f with the name `name`.
#define STOWAGE_FLOAT_FN(name, expression)                                \
  struct name {                                                           \
    STOWAGE_DEVICE float operator()(float x) const { return expression; } \
  };
STOWAGE_FLOAT_FN(LogFn, ::logf(x))
STOWAGE_FLOAT_FN(SqrtFn, ::sqrtf(x))
STOWAGE_FLOAT_FN(RsqrtFn, 1.0f / ::sqrtf(x))
STOWAGE_FLOAT_FN(SquareFn, x* x)
STOWAGE_FLOAT_FN(ReciprocalFn, 1.0f / x)
STOWAGE_FLOAT_FN(SinFn, math::Sin(x))
STOWAGE_FLOAT_FN(CosFn, math::Cos(x))
STOWAGE_FLOAT_FN(Expm1Fn, ::expm1f(x))
STOWAGE_FLOAT_FN(Log1pFn, ::log1pf(x))
STOWAGE_FLOAT_FN(ErfFn, ::erff(x))
STOWAGE_FLOAT_FN(FloorFn, ::floorf(x))
STOWAGE_FLOAT_FN(CeilFn, ::ceilf(x))
STOWAGE_FLOAT_FN(RoundFn, ::rintf(x))
#undef STOWAGE_FLOAT_FN

struct NotFn {
  STOWAGE_DEVICE bool operator()(uint8_t x) const { return x == 0; }
};
void EnqueueNot(const Launch& launch, Queue& queue) {
  EnqueueLike<NotFn, uint8_t, uint8_t, 1>(launch, queue);
}

template <typename F>
constexpr GpuKernel NumberKernel() {
  return {.enqueue = EnqueueNumbers<F, 1>, .supports = SupportsNumbers};
}

// --- Activation functions (math/activations.h) -------------------------------

// NaN stays NaN.
struct ReluFn {
  STOWAGE_DEVICE float operator()(float x) const { return x <= 0 ? 0.0f : x; }
};
// Accurate in every type: RoughFloat's loses all digits near 0.
struct TanhFn {
  STOWAGE_DEVICE float operator()(float x) const { return math::Tanh(x); }
};

// f(x) with the name `name`.
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
// Accurate in every type: for negative x they are about as small as e^x.
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

// --- glu: activation(gate) * up ----------------------------------------------

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

// Calls f with the activation that the attribute names, in the order of GluActivation.
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

// The gradients of kWidth elements from `i` on. All operands are read before a result is
// written: dgate may overwrite an operand.
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

constinit const GpuKernel Neg = NumberKernel<NegFn>();
constinit const GpuKernel Abs = NumberKernel<AbsFn>();
constinit const GpuKernel Sign = NumberKernel<SignFn>();
constinit const GpuKernel Exp = {.enqueue = EnqueueFloats<ExpFn, 1>};
constinit const GpuKernel Log = {.enqueue = EnqueueFloats<LogFn, 1>};
constinit const GpuKernel Sqrt = {.enqueue = EnqueueFloats<SqrtFn, 1>};
constinit const GpuKernel Rsqrt = {.enqueue = EnqueueFloats<RsqrtFn, 1>};
constinit const GpuKernel Square = {.enqueue = EnqueueFloats<SquareFn, 1>};
constinit const GpuKernel Reciprocal = {.enqueue =
                                            EnqueueFloats<ReciprocalFn, 1>};
constinit const GpuKernel Sin = {.enqueue = EnqueueFloats<SinFn, 1>};
constinit const GpuKernel Cos = {.enqueue = EnqueueFloats<CosFn, 1>};
constinit const GpuKernel Expm1 = {.enqueue = EnqueueFloats<Expm1Fn, 1>};
constinit const GpuKernel Log1p = {.enqueue = EnqueueFloats<Log1pFn, 1>};
constinit const GpuKernel Erf = {.enqueue = EnqueueFloats<ErfFn, 1>};
constinit const GpuKernel Floor = {.enqueue = EnqueueFloats<FloorFn, 1>};
constinit const GpuKernel Ceil = {.enqueue = EnqueueFloats<CeilFn, 1>};
constinit const GpuKernel Round = {.enqueue = EnqueueFloats<RoundFn, 1>};
constinit const GpuKernel LogicalNot = {.enqueue = EnqueueNot,
                                        .supports = SupportsAll};

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

constinit const GpuKernel Glu = {.enqueue = EnqueueGlu};
constinit const GpuKernel GluGrad = {.enqueue = EnqueueGluGrad};

}  // namespace kernels
}  // namespace stowage::gpu
