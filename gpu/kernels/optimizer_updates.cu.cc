// sgd_update, momentum_update, nesterov_update, rmsprop_update, adagrad_update,
// adam_update, adamw_update: in place over parameters and state, all of one type; the
// formulas are math/optimizer.h's.

#include "gpu/kernels/optimizer_updates.h"

#include <array>
#include <cstdint>

#include "gpu/kernel.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/simt.h"
#include "math/optimizer.h"

namespace stowage::gpu {
namespace updates {
namespace {

template <typename T>
struct SgdRule {
  static constexpr int kUpdated = 1;
  static constexpr bool kHasStep = false;
  static constexpr std::array<const char*, 1> kSettings = {"decay"};
  static constexpr std::array<int, 2> kBytes = {sizeof(T), sizeof(T)};
  static constexpr int kWidth = kPackSize<T>;

  struct Constants {
    float lr, decay, scale;
  };
  STOWAGE_DEVICE static Constants At(const Group& group) {
    return {*group.lr, static_cast<float>(group.settings[0]), Scale(group)};
  }

  template <int n>
  struct Unit {
    Elements<T, n> w, g;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      w = Fetch<T, n>(data, 0, i);
      g = Fetch<T, n>(data, 1, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k) {
      for (int i = 0; i < n; ++i) {
        float new_w = ToFloat(w.value[i]);
        math::SgdStep(k.lr, k.decay, ToFloat(g.value[i]) * k.scale, &new_w);
        w.value[i] = FromFloat<T>(new_w);
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      Keep(data, 0, i, w);
    }
  };
};

// Rules of w and one state: a rule defines its settings, its constants of a step, and the
// update of one element.
template <typename T, typename Step>
struct PairRule {
  static constexpr int kUpdated = 2;
  static constexpr bool kHasStep = false;
  static constexpr auto kSettings = Step::kSettings;
  static constexpr std::array<int, 3> kBytes = {sizeof(T), sizeof(T),
                                                sizeof(T)};
  static constexpr int kWidth = kPackSize<T>;

  struct Constants {
    Step step;
    float lr, scale;
  };
  STOWAGE_DEVICE static Constants At(const Group& group) {
    return {Step::At(group.settings), *group.lr, Scale(group)};
  }

  template <int n>
  struct Unit {
    Elements<T, n> w, state, g;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      w = Fetch<T, n>(data, 0, i);
      state = Fetch<T, n>(data, 1, i);
      g = Fetch<T, n>(data, 2, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k) {
      for (int i = 0; i < n; ++i) {
        float new_w = ToFloat(w.value[i]);
        float new_state = ToFloat(state.value[i]);
        k.step.Update(k.lr, ToFloat(g.value[i]) * k.scale, &new_w, &new_state);
        w.value[i] = FromFloat<T>(new_w);
        state.value[i] = FromFloat<T>(new_state);
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      Keep(data, 0, i, w);
      Keep(data, 1, i, state);
    }
  };
};

template <bool kNesterov>
struct MomentumSteps {
  static constexpr std::array<const char*, 2> kSettings = {"momentum", "decay"};
  float momentum, decay;
  STOWAGE_DEVICE static MomentumSteps At(const double* settings) {
    return {static_cast<float>(settings[0]), static_cast<float>(settings[1])};
  }
  STOWAGE_DEVICE void Update(float lr, float g, float* w,
                             float* velocity) const {
    if constexpr (kNesterov) {
      math::NesterovStep(lr, momentum, decay, g, w, velocity);
    } else {
      math::MomentumStep(lr, momentum, decay, g, w, velocity);
    }
  }
};

struct RmsPropSteps {
  static constexpr std::array<const char*, 3> kSettings = {"alpha", "eps",
                                                           "decay"};
  float alpha, one_minus_alpha, eps, decay;
  STOWAGE_DEVICE static RmsPropSteps At(const double* settings) {
    return {static_cast<float>(settings[0]),
            static_cast<float>(1 - settings[0]),
            static_cast<float>(settings[1]), static_cast<float>(settings[2])};
  }
  STOWAGE_DEVICE void Update(float lr, float g, float* w, float* v) const {
    math::RmsPropStep(lr, alpha, one_minus_alpha, eps, decay, g, w, v);
  }
};

struct AdagradSteps {
  static constexpr std::array<const char*, 2> kSettings = {"eps", "decay"};
  float eps, decay;
  STOWAGE_DEVICE static AdagradSteps At(const double* settings) {
    return {static_cast<float>(settings[0]), static_cast<float>(settings[1])};
  }
  STOWAGE_DEVICE void Update(float lr, float g, float* w, float* v) const {
    math::AdagradStep(lr, eps, decay, g, w, v);
  }
};

template <typename T>
using MomentumRule = PairRule<T, MomentumSteps<false>>;
template <typename T>
using NesterovRule = PairRule<T, MomentumSteps<true>>;
template <typename T>
using RmsPropRule = PairRule<T, RmsPropSteps>;
template <typename T>
using AdagradRule = PairRule<T, AdagradSteps>;

template <typename T, bool kDecoupled>
struct AdamRuleOf : AdamOf<kDecoupled> {
  using Constants = typename AdamOf<kDecoupled>::Constants;
  static constexpr int kUpdated = 3;
  static constexpr std::array<int, 4> kBytes = {sizeof(T), sizeof(T), sizeof(T),
                                                sizeof(T)};
  static constexpr int kWidth = kPackSize<T>;

  template <int n>
  struct Unit {
    Elements<T, n> w, m, v, g;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      w = Fetch<T, n>(data, 0, i);
      m = Fetch<T, n>(data, 1, i);
      v = Fetch<T, n>(data, 2, i);
      g = Fetch<T, n>(data, 3, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k) {
      for (int i = 0; i < n; ++i) {
        float new_w = ToFloat(w.value[i]);
        float new_m = ToFloat(m.value[i]);
        float new_v = ToFloat(v.value[i]);
        const float gradient =
            AdamOf<kDecoupled>::Gradient(k, ToFloat(g.value[i]), new_w);
        math::AdamWStep(k.adamw, gradient, &new_w, &new_m, &new_v);
        w.value[i] = FromFloat<T>(new_w);
        m.value[i] = FromFloat<T>(new_m);
        v.value[i] = FromFloat<T>(new_v);
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      Keep(data, 0, i, w);
      Keep(data, 1, i, m);
      Keep(data, 2, i, v);
    }
  };
};

template <typename T>
using AdamRule = AdamRuleOf<T, false>;
template <typename T>
using AdamWRule = AdamRuleOf<T, true>;

}  // namespace
}  // namespace updates

namespace kernels {

constinit const GpuKernel SgdUpdate =
    updates::UpdateEntry<updates::EnqueueMany<updates::SgdRule>>();
constinit const GpuKernel MomentumUpdate =
    updates::UpdateEntry<updates::EnqueueMany<updates::MomentumRule>>();
constinit const GpuKernel NesterovUpdate =
    updates::UpdateEntry<updates::EnqueueMany<updates::NesterovRule>>();
constinit const GpuKernel RmsPropUpdate =
    updates::UpdateEntry<updates::EnqueueMany<updates::RmsPropRule>>();
constinit const GpuKernel AdagradUpdate =
    updates::UpdateEntry<updates::EnqueueMany<updates::AdagradRule>>();
constinit const GpuKernel AdamUpdate =
    updates::UpdateEntry<updates::EnqueueMany<updates::AdamRule>>();
constinit const GpuKernel AdamWUpdate =
    updates::UpdateEntry<updates::EnqueueMany<updates::AdamWRule>>();

}  // namespace kernels
}  // namespace stowage::gpu
