// Elementwise kernels of two operands: arithmetic, comparisons, logic and the
// gradients of unary ops.

#include <cmath>
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
    Elementwise<T, T, T>(launch, pool,
                         [](int64_t n, int64_t, T* y, const T* a, const T* b) {
                           MapBlock(F(), n, y, a, b);
                         });
  });
  return StepCode::kOk;
}

// F returns Vec for two Vecs, and an integer for two integers.
template <typename F>
StepCode RunNumber(const Launch& launch, ThreadPool& pool) noexcept {
  OnNumber(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, T, T>(launch, pool,
                         [](int64_t n, int64_t, T* y, const T* a, const T* b) {
                           if constexpr (std::is_floating_point_v<T>) {
                             MapBlock(F(), n, y, a, b);
                           } else {
                             for (int64_t i = 0; i < n; ++i)
                               y[i] = F()(a[i], b[i]);
                           }
                         });
  });
  return StepCode::kOk;
}

// F returns bool for two numbers.
template <typename F>
StepCode RunComparison(const Launch& launch, ThreadPool& pool) noexcept {
  OnNumber(ComputedIn(launch.inputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<uint8_t, T, T>(
        launch, pool,
        [](int64_t n, int64_t, uint8_t* y, const T* a, const T* b) {
          for (int64_t i = 0; i < n; ++i) y[i] = F()(a[i], b[i]);
        });
  });
  return StepCode::kOk;
}

// Integers wrap around: they are computed as unsigned, for which that is defined. 64 bits hold
// the product of any two narrower operands.
template <typename T>
constexpr uint64_t Bits(T x) {
  return static_cast<uint64_t>(x);
}

struct AddFn {
  template <typename T>
  Vec<T> operator()(Vec<T> a, Vec<T> b) const {
    return a + b;
  }
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(Bits(a) + Bits(b));
  }
};
struct SubFn {
  template <typename T>
  Vec<T> operator()(Vec<T> a, Vec<T> b) const {
    return a - b;
  }
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(Bits(a) - Bits(b));
  }
};
struct MulFn {
  template <typename T>
  Vec<T> operator()(Vec<T> a, Vec<T> b) const {
    return a * b;
  }
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(Bits(a) * Bits(b));
  }
};
struct MaximumFn {
  template <typename T>
  Vec<T> operator()(Vec<T> a, Vec<T> b) const {
    return Max(a, b);
  }
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct MinimumFn {
  template <typename T>
  Vec<T> operator()(Vec<T> a, Vec<T> b) const {
    return Min(a, b);
  }
  template <typename T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct DivFn {
  template <typename V>
  V operator()(V a, V b) const {
    return a / b;
  }
};
struct PowFn {
  template <typename T>
  Vec<T> operator()(Vec<T> a, Vec<T> b) const {
    return EachLane(a, b, [](T x, T y) { return std::pow(x, y); });
  }
};

struct RemainderFn {
  template <typename T>
  Vec<T> operator()(Vec<T> a, Vec<T> b) const {
    return EachLane(a, b, [](T x, T y) { return math::Remainder(x, y); });
  }
};
struct FmodFn {
  template <typename T>
  Vec<T> operator()(Vec<T> a, Vec<T> b) const {
    return EachLane(a, b, [](T x, T y) { return std::fmod(x, y); });
  }
};

#define STOWAGE_COMPARISON_FN(name, op) \
  struct name {                         \
    template <typename T>               \
    bool operator()(T a, T b) const {   \
      return a op b;                    \
    }                                   \
  };
STOWAGE_COMPARISON_FN(EqualFn, ==)
STOWAGE_COMPARISON_FN(NotEqualFn, !=)
STOWAGE_COMPARISON_FN(LessFn, <)
STOWAGE_COMPARISON_FN(LessEqualFn, <=)
STOWAGE_COMPARISON_FN(GreaterFn, >)
STOWAGE_COMPARISON_FN(GreaterEqualFn, >=)
#undef STOWAGE_COMPARISON_FN

struct AndFn {
  bool operator()(uint8_t a, uint8_t b) const { return (a != 0) & (b != 0); }
};
struct OrFn {
  bool operator()(uint8_t a, uint8_t b) const { return (a | b) != 0; }
};
template <typename F>
StepCode RunLogic(const Launch& launch, ThreadPool& pool) noexcept {
  Elementwise<uint8_t, uint8_t, uint8_t>(
      launch, pool,
      [](int64_t n, int64_t, uint8_t* y, const uint8_t* a, const uint8_t* b) {
        for (int64_t i = 0; i < n; ++i) y[i] = F()(a[i], b[i]);
      });
  return StepCode::kOk;
}

// dx from y or x, and dy.
struct ReluGradFn {
  template <typename V>
  V operator()(V y, V dy) const {
    return Select(V::Zero() < y, dy, V::Zero());
  }
};
struct SigmoidGradFn {
  template <typename V>
  V operator()(V y, V dy) const {
    return dy * math::SigmoidDerivativeFromOutput(y);
  }
};
struct TanhGradFn {
  template <typename V>
  V operator()(V y, V dy) const {
    return dy * math::TanhDerivativeFromOutput(y);
  }
};
struct SiluGradFn {
  template <typename V>
  V operator()(V x, V dy) const {
    return dy * math::SiluDerivative(x);
  }
};
struct GeluTanhGradFn {
  template <typename V>
  V operator()(V x, V dy) const {
    return dy * math::GeluTanhDerivative(x);
  }
};
struct GeluErfGradFn {
  template <typename V>
  V operator()(V x, V dy) const {
    return dy * math::GeluErfDerivative(x);
  }
};

struct MishGradFn {
  template <typename V>
  V operator()(V x, V dy) const {
    return dy * math::MishDerivative(x);
  }
};
struct HardSwishGradFn {
  template <typename V>
  V operator()(V x, V dy) const {
    return dy * math::HardSwishDerivative(x);
  }
};

// dx = F(attrs)(y, dy), with numbers among the attributes.
template <typename F>
StepCode RunWithAttrs(const Launch& launch, ThreadPool& pool) noexcept {
  const F f(*launch.attrs);
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, T, T>(
        launch, pool, [f](int64_t n, int64_t, T* dx, const T* y, const T* dy) {
          MapBlock(f, n, dx, y, dy);
        });
  });
  return StepCode::kOk;
}
struct LeakyReluGradFn {
  explicit LeakyReluGradFn(const Attrs& attrs) : slope(attrs.Float("slope")) {}
  template <typename V>
  V operator()(V y, V dy) const {
    return Select(V::Zero() < y, dy, dy * V(slope));
  }
  double slope;
};
struct EluGradFn {
  explicit EluGradFn(const Attrs& attrs)
      : alpha(attrs.Float("alpha")), scale(attrs.Float("scale")) {}
  template <typename V>
  V operator()(V y, V dy) const {
    return dy * math::EluDerivativeFromOutput(y, V(alpha), V(scale));
  }
  double alpha, scale;
};
struct ClampGradFn {
  explicit ClampGradFn(const Attrs& attrs)
      : min(attrs.Float("min")), max(attrs.Float("max")) {}
  template <typename V>
  V operator()(V y, V dy) const {
    return Select(y <= V(min), V::Zero(), Select(V(max) <= y, V::Zero(), dy));
  }
  double min, max;
};

template <typename F>
constexpr CpuKernel FloatKernel() {
  return {.run = RunFloat<F>, .supports = SupportsAll, .block = BlockOf<F, 2>};
}
template <typename F>
constexpr CpuKernel AttrsKernel() {
  return {.run = RunWithAttrs<F>,
          .supports = SupportsAll,
          .block = BlockWithAttrs<F, 2>};
}
template <typename F>
constexpr CpuKernel NumberKernel() {
  return {.run = RunNumber<F>, .supports = SupportsAll, .block = BlockOf<F, 2>};
}
template <typename F>
constexpr CpuKernel ComparisonKernel() {
  return {.run = RunComparison<F>, .supports = SupportsAll};
}

}  // namespace

namespace kernels {

constinit const CpuKernel Add = NumberKernel<AddFn>();
constinit const CpuKernel Sub = NumberKernel<SubFn>();
constinit const CpuKernel Mul = NumberKernel<MulFn>();
constinit const CpuKernel Div = FloatKernel<DivFn>();
constinit const CpuKernel Pow = FloatKernel<PowFn>();
constinit const CpuKernel Maximum = NumberKernel<MaximumFn>();
constinit const CpuKernel Minimum = NumberKernel<MinimumFn>();
constinit const CpuKernel Equal = ComparisonKernel<EqualFn>();
constinit const CpuKernel NotEqual = ComparisonKernel<NotEqualFn>();
constinit const CpuKernel Less = ComparisonKernel<LessFn>();
constinit const CpuKernel LessEqual = ComparisonKernel<LessEqualFn>();
constinit const CpuKernel Greater = ComparisonKernel<GreaterFn>();
constinit const CpuKernel GreaterEqual = ComparisonKernel<GreaterEqualFn>();
constinit const CpuKernel LogicalAnd = {.run = RunLogic<AndFn>,
                                        .supports = SupportsAll};
constinit const CpuKernel LogicalOr = {.run = RunLogic<OrFn>,
                                       .supports = SupportsAll};
constinit const CpuKernel Remainder = FloatKernel<RemainderFn>();
constinit const CpuKernel Fmod = FloatKernel<FmodFn>();
constinit const CpuKernel ReluGrad = FloatKernel<ReluGradFn>();
constinit const CpuKernel SigmoidGrad = FloatKernel<SigmoidGradFn>();
constinit const CpuKernel TanhGrad = FloatKernel<TanhGradFn>();
constinit const CpuKernel SiluGrad = FloatKernel<SiluGradFn>();
constinit const CpuKernel GeluTanhGrad = FloatKernel<GeluTanhGradFn>();
constinit const CpuKernel GeluErfGrad = FloatKernel<GeluErfGradFn>();
constinit const CpuKernel MishGrad = FloatKernel<MishGradFn>();
constinit const CpuKernel HardSwishGrad = FloatKernel<HardSwishGradFn>();
constinit const CpuKernel LeakyReluGrad = AttrsKernel<LeakyReluGradFn>();
constinit const CpuKernel EluGrad = AttrsKernel<EluGradFn>();
constinit const CpuKernel ClampGrad = AttrsKernel<ClampGradFn>();

}  // namespace kernels
}  // namespace stowage::cpu
