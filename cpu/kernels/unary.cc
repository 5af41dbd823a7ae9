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
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, T>(launch, pool, [](int64_t n, int64_t, T* y, const T* x) {
      MapBlock(F(), n, y, x);
    });
  });
  return StepCode::kOk;
}

// F gives Vec from Vec, and an integer from an integer.
template <typename F>
StepCode RunNumber(const Launch& launch, ThreadPool& pool) noexcept {
  OnNumber(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, T>(launch, pool, [](int64_t n, int64_t, T* y, const T* x) {
      if constexpr (std::is_floating_point_v<T>) {
        MapBlock(F(), n, y, x);
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
STOWAGE_VEC_FN(Expm1Fn, Expm1(x))
STOWAGE_VEC_FN(Log1pFn, Log1p(x))
STOWAGE_VEC_FN(ErfFn, Erf(x))
STOWAGE_VEC_FN(FloorFn, Floor(x))
STOWAGE_VEC_FN(CeilFn, Ceil(x))
STOWAGE_VEC_FN(RoundFn, Round(x))
STOWAGE_VEC_FN(MishFn, math::Mish(x))
STOWAGE_VEC_FN(HardSwishFn, math::HardSwish(x))
#undef STOWAGE_VEC_FN

// max(x, 0) + log(1 + u) with u = e^-|x|, which never overflows.
struct SoftplusFn {
  template <typename V>
  V operator()(V x) const {
    return Max(x, V::Zero()) + Log1p(Exp(-Abs(x)));
  }
};

// f of x and of numbers among the attributes, y = F(attrs)(x). NaN stays NaN.
template <typename F>
StepCode RunWithAttrs(const Launch& launch, ThreadPool& pool) noexcept {
  const F f(*launch.attrs);
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, T>(launch, pool, [f](int64_t n, int64_t, T* y, const T* x) {
      MapBlock(f, n, y, x);
    });
  });
  return StepCode::kOk;
}
struct LeakyReluFn {
  explicit LeakyReluFn(const Attrs& attrs) : slope(attrs.Float("slope")) {}
  template <typename V>
  V operator()(V x) const {
    return Select(x <= V::Zero(), x * V(slope), x);
  }
  double slope;
};
struct EluFn {
  explicit EluFn(const Attrs& attrs)
      : alpha(attrs.Float("alpha")), scale(attrs.Float("scale")) {}
  template <typename V>
  V operator()(V x) const {
    return V(scale) * Select(x <= V::Zero(), V(alpha) * Expm1(x), x);
  }
  double alpha, scale;
};
struct ClampFn {
  explicit ClampFn(const Attrs& attrs)
      : min(attrs.Float("min")), max(attrs.Float("max")) {}
  template <typename V>
  V operator()(V x) const {
    return Select(x < V(min), V(min), Select(V(max) < x, V(max), x));
  }
  double min, max;
};

StepCode RunLogicalNot(const Launch& launch, ThreadPool& pool) noexcept {
  Elementwise<uint8_t, uint8_t>(
      launch, pool, [](int64_t n, int64_t, uint8_t* y, const uint8_t* x) {
        for (int64_t i = 0; i < n; ++i) y[i] = x[i] == 0;
      });
  return StepCode::kOk;
}

template <typename F>
constexpr CpuKernel FloatKernel() {
  return {.run = RunFloat<F>, .supports = SupportsAll, .block = BlockOf<F, 1>};
}
template <typename F>
constexpr CpuKernel AttrsKernel() {
  return {.run = RunWithAttrs<F>,
          .supports = SupportsAll,
          .block = BlockWithAttrs<F, 1>};
}
template <typename F>
constexpr CpuKernel NumberKernel() {
  return {.run = RunNumber<F>, .supports = SupportsAll, .block = BlockOf<F, 1>};
}

}  // namespace

namespace kernels {

constinit const CpuKernel Neg = NumberKernel<NegFn>();
constinit const CpuKernel Abs = NumberKernel<AbsFn>();
constinit const CpuKernel Sign = NumberKernel<SignFn>();
constinit const CpuKernel Exp = FloatKernel<ExpFn>();
constinit const CpuKernel Log = FloatKernel<LogFn>();
constinit const CpuKernel Sqrt = FloatKernel<SqrtFn>();
constinit const CpuKernel Rsqrt = FloatKernel<RsqrtFn>();
constinit const CpuKernel Square = FloatKernel<SquareFn>();
constinit const CpuKernel Reciprocal = FloatKernel<ReciprocalFn>();
constinit const CpuKernel Sin = FloatKernel<SinFn>();
constinit const CpuKernel Cos = FloatKernel<CosFn>();
constinit const CpuKernel Relu = FloatKernel<ReluFn>();
constinit const CpuKernel Silu = FloatKernel<SiluFn>();
constinit const CpuKernel Sigmoid = FloatKernel<SigmoidFn>();
constinit const CpuKernel Tanh = FloatKernel<TanhFn>();
constinit const CpuKernel GeluTanh = FloatKernel<GeluTanhFn>();
constinit const CpuKernel GeluErf = FloatKernel<GeluErfFn>();
constinit const CpuKernel LogicalNot = {.run = RunLogicalNot,
                                        .supports = SupportsAll};
constinit const CpuKernel Expm1 = FloatKernel<Expm1Fn>();
constinit const CpuKernel Log1p = FloatKernel<Log1pFn>();
constinit const CpuKernel Erf = FloatKernel<ErfFn>();
constinit const CpuKernel Floor = FloatKernel<FloorFn>();
constinit const CpuKernel Ceil = FloatKernel<CeilFn>();
constinit const CpuKernel Round = FloatKernel<RoundFn>();
constinit const CpuKernel Softplus = FloatKernel<SoftplusFn>();
constinit const CpuKernel Mish = FloatKernel<MishFn>();
constinit const CpuKernel HardSwish = FloatKernel<HardSwishFn>();
constinit const CpuKernel LeakyRelu = AttrsKernel<LeakyReluFn>();
constinit const CpuKernel Elu = AttrsKernel<EluFn>();
constinit const CpuKernel Clamp = AttrsKernel<ClampFn>();

}  // namespace kernels
}  // namespace stowage::cpu
