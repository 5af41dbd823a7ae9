// Elementwise kernels of one operand.

#include <cmath>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "math/portable.h"
#include "math/trigonometry.h"

namespace stowage::gpu {
namespace {

// The type's own negation, but defined for the lowest value, which stays.
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
// 0 for NaN, as it is neither above nor below.
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
// f as the type `name`.
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

}  // namespace kernels
}  // namespace stowage::gpu
