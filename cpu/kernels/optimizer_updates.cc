// sgd_update, momentum_update, nesterov_update, rmsprop_update, adagrad_update,
// adam_update, adamw_update: in place over parameters and state, all of one type; the
// formulas are math/optimizer.h's.

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vec.h"
#include "math/optimizer.h"

namespace stowage::cpu {
namespace {

double ScalarF32(const TensorView& x) { return *x.as<const float>(); }

// The optional operand that multiplies the gradient, or skips the update.
double GradientScale(const Launch& launch, size_t index) {
  return launch.inputs.size() > index ? ScalarF32(launch.inputs[index]) : 1.0;
}

// Calls f(place, in, out, T()) for registers of the elements of w, the states and the
// gradient, which are the first inputs.
template <typename F>
void ForElements(const Launch& launch, ThreadPool& pool, const F& f) {
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    ElementwiseMany<T>(
        launch, pool, launch.outputs.size() + 1,
        [&](auto at, const auto& in, const auto& out) { f(at, in, out, T{}); });
  });
}

StepCode RunSgd(const Launch& launch, ThreadPool& pool) noexcept {
  const double lr = ScalarF32(launch.inputs[2]);
  const double decay = launch.attrs->Float("decay");
  const double scale = GradientScale(launch, 3);
  if (math::SkipsUpdate(scale)) return StepCode::kOk;
  ForElements(launch, pool,
              [&](auto at, const auto& in, const auto& out, auto zero) {
                using T = decltype(zero);
                using V = Vec<T>;
                V w = at.Load(in[0]);
                const V g = at.Load(in[1]) * V(scale);
                math::SgdStep(V(lr), V(decay), g, &w);
                at.Store(out[0], w);
              });
  return StepCode::kOk;
}

// Updates w and one state: `update` takes the learning rate, the gradient and these
// two, in registers.
template <typename F>
void UpdatePair(const Launch& launch, ThreadPool& pool, F&& update) {
  const double lr = ScalarF32(launch.inputs[3]);
  const double scale = GradientScale(launch, 4);
  if (math::SkipsUpdate(scale)) return;
  ForElements(launch, pool,
              [&](auto at, const auto& in, const auto& out, auto zero) {
                using T = decltype(zero);
                using V = Vec<T>;
                V w = at.Load(in[0]);
                V state = at.Load(in[1]);
                const V g = at.Load(in[2]) * V(scale);
                update(V(lr), g, &w, &state);
                at.Store(out[0], w);
                at.Store(out[1], state);
              });
}

template <bool kNesterov>
StepCode RunMomentum(const Launch& launch, ThreadPool& pool) noexcept {
  const double momentum = launch.attrs->Float("momentum");
  const double decay = launch.attrs->Float("decay");
  UpdatePair(launch, pool, [&](auto lr, auto g, auto* w, auto* velocity) {
    using V = decltype(lr);
    if constexpr (kNesterov) {
      math::NesterovStep(lr, V(momentum), V(decay), g, w, velocity);
    } else {
      math::MomentumStep(lr, V(momentum), V(decay), g, w, velocity);
    }
  });
  return StepCode::kOk;
}

StepCode RunRmsProp(const Launch& launch, ThreadPool& pool) noexcept {
  const double alpha = launch.attrs->Float("alpha");
  const double eps = launch.attrs->Float("eps");
  const double decay = launch.attrs->Float("decay");
  UpdatePair(launch, pool, [&](auto lr, auto g, auto* w, auto* v) {
    using V = decltype(lr);
    math::RmsPropStep(lr, V(alpha), V(1 - alpha), V(eps), V(decay), g, w, v);
  });
  return StepCode::kOk;
}

StepCode RunAdagrad(const Launch& launch, ThreadPool& pool) noexcept {
  const double eps = launch.attrs->Float("eps");
  const double decay = launch.attrs->Float("decay");
  UpdatePair(launch, pool, [&](auto lr, auto g, auto* w, auto* v) {
    using V = decltype(lr);
    math::AdagradStep(lr, V(eps), V(decay), g, w, v);
  });
  return StepCode::kOk;
}

// The decay is part of the gradient, or of the weight by itself (AdamW).
template <bool kDecoupled>
StepCode RunAdam(const Launch& launch, ThreadPool& pool) noexcept {
  const double decay = launch.attrs->Float("decay");
  const auto constants = math::AdamWConstants::At(
      *launch.inputs[5].as<const int64_t>(), ScalarF32(launch.inputs[4]),
      launch.attrs->Float("beta1"), launch.attrs->Float("beta2"),
      launch.attrs->Float("eps"), kDecoupled ? decay : 0.0);
  const double scale = GradientScale(launch, 6);
  if (math::SkipsUpdate(scale)) return StepCode::kOk;
  ForElements(launch, pool,
              [&](auto at, const auto& in, const auto& out, auto zero) {
                using T = decltype(zero);
                using V = Vec<T>;
                V w = at.Load(in[0]);
                V m = at.Load(in[1]);
                V v = at.Load(in[2]);
                V g = at.Load(in[3]) * V(scale);
                if constexpr (!kDecoupled) g = g + V(decay) * w;
                math::AdamWStep(constants, g, &w, &m, &v);
                at.Store(out[0], w);
                at.Store(out[1], m);
                at.Store(out[2], v);
              });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel SgdUpdate = {.run = RunSgd, .supports = SupportsAll};
constinit const CpuKernel MomentumUpdate = {.run = RunMomentum<false>,
                                            .supports = SupportsAll};
constinit const CpuKernel NesterovUpdate = {.run = RunMomentum<true>,
                                            .supports = SupportsAll};
constinit const CpuKernel RmsPropUpdate = {.run = RunRmsProp,
                                           .supports = SupportsAll};
constinit const CpuKernel AdagradUpdate = {.run = RunAdagrad,
                                           .supports = SupportsAll};
constinit const CpuKernel AdamUpdate = {.run = RunAdam<false>,
                                        .supports = SupportsAll};
constinit const CpuKernel AdamWUpdate = {.run = RunAdam<true>,
                                         .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
