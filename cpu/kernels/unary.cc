// Ops of one operand, choices between two, other element types, gated units
// (cpu/kernels/elementwise.h).

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vec.h"
#include "math/activations.h"
#include "math/small_floats.h"

namespace stowage::cpu {

// Elementwise kernels of one operand.

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

// F returns Vec for Vec, and an integer for an integer.
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

// where: a choice between two operands, of any element type.

namespace {

StepCode RunWhere(const Launch& launch, ThreadPool& pool) noexcept {
  OnWidth(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, uint8_t, T, T>(
        launch, pool,
        [](int64_t n, int64_t, T* y, const uint8_t* condition, const T* a,
           const T* b) {
          for (int64_t i = 0; i < n; ++i) y[i] = condition[i] ? a[i] : b[i];
        });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Where = {.run = RunWhere, .supports = SupportsAll};

}  // namespace kernels

// cast between all element types.
//
// Floats round once to nearest, ties to even. A float to an integer truncates; a value outside
// the integer's range becomes the nearest bound, and NaN 0. An integer to a narrower one wraps
// around. Bool is whether the value is not zero.

namespace {

// Element types without a C++ type.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

template <typename F>
auto OnAny(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kF16:
      return f(Half{});
    case DType::kBF16:
      return f(BFloat16{});
    case DType::kI16:
      return f(int16_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kBool:
      return f(Bool{});
  }
  STOWAGE_CHECK(false);
}

// The number that an element stands for, exactly.
template <typename T>
T Number(T x) {
  return x;
}
float Number(Half x) { return math::HalfToFloat(x.bits); }
float Number(BFloat16 x) { return math::BFloat16ToFloat(x.bits); }
uint8_t Number(Bool x) { return x.byte != 0; }

// A float that rounds to 16 bits as `x` does: x itself or, if a float cannot hold it, one with
// a sticky last bit.
float Sticky(float x) { return x; }
float Sticky(double x) { return math::RoundToOddFloat(x); }
template <std::integral T>
float Sticky(T integer) {
  const int64_t x = integer;
  // A double holds 53 bits; gather any lower ones in the last of those.
  const uint64_t magnitude =
      x < 0 ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  uint64_t kept = magnitude;
  if (magnitude >> 53 != 0) {
    constexpr uint64_t kLow = (uint64_t{1} << 12) - 1;
    kept = (magnitude & ~kLow) | ((magnitude & kLow) != 0 ? kLow + 1 : 0);
  }
  const double number = static_cast<double>(kept);
  return math::RoundToOddFloat(x < 0 ? -number : number);
}

template <typename To, typename From>
To Converted(From x) {
  if constexpr (std::is_same_v<To, Half>) {
    return {math::FloatToHalf(Sticky(x))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return {math::FloatToBFloat16(Sticky(x))};
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(x != From(0))};
  } else if constexpr (std::is_integral_v<To> &&
                       std::is_floating_point_v<From>) {
    // -2^k or 0, and 2^k: exact in From.
    constexpr From kLowest = static_cast<From>(std::numeric_limits<To>::min());
    const From beyond = std::ldexp(From(1), std::numeric_limits<To>::digits);
    if (x != x) return 0;
    if (x <= kLowest) return std::numeric_limits<To>::min();
    if (x >= beyond) return std::numeric_limits<To>::max();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

StepCode RunCast(const Launch& launch, ThreadPool& pool) noexcept {
  OnAny(launch.inputs[0].dtype(), [&](auto from) {
    OnAny(launch.outputs[0].dtype(), [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      Elementwise<To, From>(launch, pool,
                            [](int64_t n, int64_t, To* y, const From* x) {
                              // The result may overwrite the operand with
                              // another type: read and write bytes, a
                              // block at a time.
                              constexpr int64_t kBlock = 256;
                              From before[kBlock];
                              To after[kBlock];
                              for (int64_t i = 0; i < n; i += kBlock) {
                                const int64_t count = std::min(kBlock, n - i);
                                const auto size = static_cast<size_t>(count);
                                std::memcpy(before, x + i, size * sizeof(From));
                                for (int64_t j = 0; j < count; ++j) {
                                  after[j] = Converted<To>(Number(before[j]));
                                }
                                std::memcpy(y + i, after, size * sizeof(To));
                              }
                            });
    });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Cast = {.run = RunCast, .supports = SupportsAll};

}  // namespace kernels

// glu, activation(gate) * up, and its gradient.

namespace {

struct Silu {
  template <typename V>
  static V Of(V x) {
    return math::Silu(x);
  }
  template <typename V>
  static V Derivative(V x) {
    return math::SiluDerivative(x);
  }
};
struct GeluTanh {
  template <typename V>
  static V Of(V x) {
    return math::GeluTanh(x);
  }
  template <typename V>
  static V Derivative(V x) {
    return math::GeluTanhDerivative(x);
  }
};
struct GeluErf {
  template <typename V>
  static V Of(V x) {
    return math::GeluErf(x);
  }
  template <typename V>
  static V Derivative(V x) {
    return math::GeluErfDerivative(x);
  }
};

// f of the activation that the attribute names, in the order of GluActivation.
template <typename F>
void OnActivation(const Launch& launch, F&& f) {
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
  template <typename V>
  V operator()(V gate, V up) const {
    return A::Of(gate) * up;
  }
};

StepCode RunGlu(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    OnActivation(launch, [&](auto activation) {
      using A = decltype(activation);
      Elementwise<T, T, T>(
          launch, pool,
          [](int64_t n, int64_t, T* y, const T* gate, const T* up) {
            MapVec(GluFn<A>(), n, y, gate, up);
          });
    });
  });
  return StepCode::kOk;
}

StepCode RunGluGrad(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    OnActivation(launch, [&](auto activation) {
      using A = decltype(activation);
      ElementwiseMany<T>(launch, pool, 3,
                         [](auto at, const auto& in, const auto& out) {
                           const Vec<T> g = at.Load(in[0]);
                           const Vec<T> u = at.Load(in[1]);
                           const Vec<T> d = at.Load(in[2]);
                           at.Store(out[0], d * u * A::Derivative(g));
                           at.Store(out[1], d * A::Of(g));
                         });
    });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Glu = {.run = RunGlu, .supports = SupportsAll};
constinit const CpuKernel GluGrad = {.run = RunGluGrad,
                                     .supports = SupportsAll};

}  // namespace kernels

}  // namespace stowage::cpu
