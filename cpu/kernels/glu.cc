// glu, activation(gate) * up, and its gradient.

#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vec.h"
#include "math/activations.h"

namespace stowage::cpu {
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
