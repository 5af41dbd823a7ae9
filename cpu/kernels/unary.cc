// Elementwise kernels of one operand.

#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vec.h"
#include "math/activations.h"

namespace stowage::cpu {
namespace {

template <typename F>
StepCode RunFloat(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, T>(launch, pool, [](int64_t n, int64_t, T* y, const T* x) {
      MapVec(F(), n, y, x);
    });
  });
  return StepCode::kOk;
}

// F gives Vec from Vec, and an integer from an integer.
template <typename F>
StepCode RunNumber(const Launch& launch, ThreadPool& pool) noexcept {
  OnNumber(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, T>(launch, pool, [](int64_t n, int64_t, T* y, const T* x) {
      if constexpr (std::is_floating_point_v<T>) {
        MapVec(F(), n, y, x);
      } else {
        for (int64_t i = 0; i < n; ++i) y[i] = F()(x[i]);
      }
    });
  });
  return StepCode::kOk;
}

// The type's own negation, but defined for the lowest value, which stays.
template <typename T>
T Negated(T x) {
  using Unsigned = std::make_unsigned_t<T>;
  return static_cast<T>(Unsigned{0} - static_cast<Unsigned>(x));
}

struct NegFn {
  template <typename T>
  Vec<T> operator()(Vec<T> x) const {
    return -x;
  }
  template <typename T>
  T operator()(T x) const {
    return Negated(x);
  }
};
struct AbsFn {
  template <typename T>
  Vec<T> operator()(Vec<T> x) const {
    return Abs(x);
  }
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_signed_v<T>) return x < 0 ? Negated(x) : x;
    return x;
  }
};
// 0 for NaN, as it is neither above nor below.
struct SignFn {
  template <typename T>
  Vec<T> operator()(Vec<T> x) const {
    const Vec<T> zero = Vec<T>::Zero();
    return Select(x < zero, Vec<T>(-1), Select(zero < x, Vec<T>(1), zero));
  }
  template <typename T>
  T operator()(T x) const {
    return static_cast<T>(int{x > 0} - int{x < 0});
  }
};

// f as the type `name`, over vectors.
#define STOWAGE_VEC_FN(name, expression) \
  struct name {                          \
    template <typename V>                \
    V operator()(V x) const {            \
      return expression;                 \
    }                                    \
  };
STOWAGE_VEC_FN(ExpFn, Exp(x))
STOWAGE_VEC_FN(LogFn, Log(x))
STOWAGE_VEC_FN(SqrtFn, Sqrt(x))
STOWAGE_VEC_FN(RsqrtFn, V(1) / Sqrt(x))
STOWAGE_VEC_FN(SquareFn, x* x)
STOWAGE_VEC_FN(ReciprocalFn, V(1) / x)
STOWAGE_VEC_FN(SinFn, Sin(x))
STOWAGE_VEC_FN(CosFn, Cos(x))
// NaN stays NaN.
STOWAGE_VEC_FN(ReluFn, Select(x <= V::Zero(), V::Zero(), x))
STOWAGE_VEC_FN(SiluFn, math::Silu(x))
STOWAGE_VEC_FN(SigmoidFn, math::Sigmoid(x))
STOWAGE_VEC_FN(TanhFn, Tanh(x))
STOWAGE_VEC_FN(GeluTanhFn, math::GeluTanh(x))
STOWAGE_VEC_FN(GeluErfFn, math::GeluErf(x))
#undef STOWAGE_VEC_FN

StepCode RunLogicalNot(const Launch& launch, ThreadPool& pool) noexcept {
  Elementwise<uint8_t, uint8_t>(
      launch, pool, [](int64_t n, int64_t, uint8_t* y, const uint8_t* x) {
        for (int64_t i = 0; i < n; ++i) y[i] = x[i] == 0;
      });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Neg = {.run = RunNumber<NegFn>,
                                 .supports = SupportsNumbers};
constinit const CpuKernel Abs = {.run = RunNumber<AbsFn>,
                                 .supports = SupportsNumbers};
constinit const CpuKernel Sign = {.run = RunNumber<SignFn>,
                                  .supports = SupportsNumbers};
constinit const CpuKernel Exp = {.run = RunFloat<ExpFn>};
constinit const CpuKernel Log = {.run = RunFloat<LogFn>};
constinit const CpuKernel Sqrt = {.run = RunFloat<SqrtFn>};
constinit const CpuKernel Rsqrt = {.run = RunFloat<RsqrtFn>};
constinit const CpuKernel Square = {.run = RunFloat<SquareFn>};
constinit const CpuKernel Reciprocal = {.run = RunFloat<ReciprocalFn>};
constinit const CpuKernel Sin = {.run = RunFloat<SinFn>};
constinit const CpuKernel Cos = {.run = RunFloat<CosFn>};
constinit const CpuKernel Relu = {.run = RunFloat<ReluFn>};
constinit const CpuKernel Silu = {.run = RunFloat<SiluFn>};
constinit const CpuKernel Sigmoid = {.run = RunFloat<SigmoidFn>};
constinit const CpuKernel Tanh = {.run = RunFloat<TanhFn>};
constinit const CpuKernel GeluTanh = {.run = RunFloat<GeluTanhFn>};
constinit const CpuKernel GeluErf = {.run = RunFloat<GeluErfFn>};
constinit const CpuKernel LogicalNot = {.run = RunLogicalNot,
                                        .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
