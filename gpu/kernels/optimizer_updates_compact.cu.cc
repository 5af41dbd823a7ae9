// adamw_split_update, adamw_bf16_update, adamw_bf16_split_update, adamw_8bit_update,
// adamw_8bit_split_update, momentum_bf16_update, momentum_bf16_split_update: updates of
// f32 numbers that are kept in parts or in fewer bits.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/kernel.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/kernels/optimizer_updates.h"
#include "gpu/kernels/rows.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"
#include "ir/tensor_type.h"
#include "math/optimizer.h"
#include "math/random.h"
#include "runtime/kernel.h"

namespace stowage::gpu {
namespace updates {
namespace {

// --- How weights are kept -----------------------------------------------------
//
// Their operands come first; `Number` is the gradient's type.

struct WholeWeights {
  static constexpr int kOperands = 1;
  static constexpr std::array<int, 1> kBytes = {4};
  using Number = float;

  template <int n>
  struct Unit {
    Elements<float, n> w;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      w = Fetch<float, n>(data, 0, i);
    }
    STOWAGE_DEVICE float Get(int e) const { return w.value[e]; }
    STOWAGE_DEVICE void Set(int e, float x) { w.value[e] = x; }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      Keep(data, 0, i, w);
    }
  };
};

struct LongParts {
  using Delta = int16_t;
  STOWAGE_DEVICE static math::SplitMaster Split(float x) {
    return math::Split(x);
  }
  STOWAGE_DEVICE static float Join(uint16_t weight, Delta delta) {
    return math::Join({weight, delta});
  }
};
struct ShortParts {
  using Delta = uint8_t;
  STOWAGE_DEVICE static math::ShortSplitMaster Split(float x) {
    return math::SplitShort(x);
  }
  STOWAGE_DEVICE static float Join(uint16_t weight, Delta delta) {
    return math::JoinShort({weight, delta});
  }
};

// A bf16 and the 16 or 8 bits that complete it to an f32 or its upper part.
template <typename Parts>
struct SplitWeights {
  using Delta = typename Parts::Delta;
  static constexpr int kOperands = 2;
  static constexpr std::array<int, 2> kBytes = {2, sizeof(Delta)};
  using Number = BF16;

  template <int n>
  struct Unit {
    Elements<BF16, n> w;
    Elements<Delta, n> delta;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      w = Fetch<BF16, n>(data, 0, i);
      delta = Fetch<Delta, n>(data, 1, i);
    }
    STOWAGE_DEVICE float Get(int e) const {
      return Parts::Join(w.value[e].bits, delta.value[e]);
    }
    STOWAGE_DEVICE void Set(int e, float x) {
      const auto parts = Parts::Split(x);
      w.value[e] = {parts.weight};
      delta.value[e] = parts.delta;
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      Keep(data, 0, i, w);
      Keep(data, 1, i, delta);
    }
  };
};

// Bytes of the weights' operands, those of states, and the gradient's.
template <typename Weights, size_t kStates>
constexpr auto BytesOf(const std::array<int, kStates>& states) {
  std::array<int, Weights::kBytes.size() + kStates + 1> bytes = {};
  size_t k = 0;
  for (const int of_weight : Weights::kBytes) bytes[k++] = of_weight;
  for (const int of_state : states) bytes[k++] = of_state;
  bytes[k] = sizeof(typename Weights::Number);
  return bytes;
}

// --- AdamW, moments in full ---------------------------------------------------

template <typename Weights>
struct FullAdamWRule : AdamOf<true> {
  static constexpr int kWeights = Weights::kOperands;
  static constexpr int kUpdated = kWeights + 2;
  static constexpr auto kBytes =
      BytesOf<Weights>(std::array<int, 2>{sizeof(float), sizeof(float)});
  static constexpr int kWidth = kPackSize<float>;

  template <int n>
  struct Unit {
    typename Weights::template Unit<n> weights;
    Elements<float, n> m, v;
    Elements<typename Weights::Number, n> g;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      weights.Load(data, i);
      m = Fetch<float, n>(data, kWeights, i);
      v = Fetch<float, n>(data, kWeights + 1, i);
      g = Fetch<typename Weights::Number, n>(data, kUpdated, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k) {
      for (int e = 0; e < n; ++e) {
        float w = weights.Get(e);
        math::AdamWStep(k.adamw, ToFloat(g.value[e]) * k.scale, &w, &m.value[e],
                        &v.value[e]);
        weights.Set(e, w);
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      weights.Store(data, i);
      Keep(data, kWeights, i, m);
      Keep(data, kWeights + 1, i, v);
    }
  };
};

// --- Moments of bf16 by stochastic rounding -----------------------------------

// The key of a group's roundings, besides the tensor's id and the element.
struct Rounding {
  int64_t seed, step;

  // The words of elements i to i + n - 1, of which four have a counter; i is a
  // multiple of n, 1 or 4.
  template <int n>
  STOWAGE_DEVICE Elements<uint32_t, n> WordsOf(uint32_t id, int64_t i) const {
    const math::Philox4 words =
        math::RoundingWords(math::DropoutKey(seed, id), step, i / 4);
    Elements<uint32_t, n> of_elements;
    if constexpr (n == 4) {
      for (int e = 0; e < n; ++e) of_elements.value[e] = words.word[e];
    } else {
      static_assert(n == 1);
      const auto e = static_cast<int>(i % 4);
      of_elements.value[0] = e == 0   ? words.word[0]
                             : e == 1 ? words.word[1]
                             : e == 2 ? words.word[2]
                                      : words.word[3];
    }
    return of_elements;
  }
};

// math::AdamWStep with explicit fused multiply-adds. A compiler that fuses freely does so
// differently for four elements than for one, and a last bit of m decides its rounding or
// code.
STOWAGE_DEVICE void FusedAdamWStep(const math::AdamWConstants& k, float g,
                                   float* w, float* m, float* v) {
  *m = ::fmaf(float(k.beta1), *m, float(k.one_minus_beta1) * g);
  *v = ::fmaf(float(k.beta2), *v, float(k.one_minus_beta2) * (g * g));
  const float root = math::Sqrt(*v * float(k.v_correction));
  *w = ::fmaf(float(k.keep), *w, -(float(k.rate) * *m / (root + float(k.eps))));
}

template <typename Weights>
struct Bf16AdamWRule : AdamOf<true>, RoundedStochastically {
  static constexpr int kWeights = Weights::kOperands;
  static constexpr int kUpdated = kWeights + 2;
  static constexpr auto kBytes = BytesOf<Weights>(std::array<int, 2>{2, 2});
  static constexpr int kWidth = 4;

  struct Constants {
    AdamOf<true>::Constants step;
    Rounding rounding;
  };
  STOWAGE_DEVICE static Constants At(const Group& group) {
    return {AdamOf<true>::At(group), {*group.seed, *group.step}};
  }

  template <int n>
  struct Unit {
    typename Weights::template Unit<n> weights;
    Elements<BF16, n> m, v;
    Elements<typename Weights::Number, n> g;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      weights.Load(data, i);
      m = Fetch<BF16, n>(data, kWeights, i);
      v = Fetch<BF16, n>(data, kWeights + 1, i);
      g = Fetch<typename Weights::Number, n>(data, kUpdated, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k, uint32_t id, int64_t i) {
      const Elements<uint32_t, n> words = k.rounding.template WordsOf<n>(id, i);
      for (int e = 0; e < n; ++e) {
        float w = weights.Get(e);
        float new_m = ToFloat(m.value[e]);
        float new_v = ToFloat(v.value[e]);
        FusedAdamWStep(k.step.adamw, ToFloat(g.value[e]) * k.step.scale, &w,
                       &new_m, &new_v);
        weights.Set(e, w);
        const uint32_t word = words.value[e];
        m.value[e] = {math::StochasticBFloat16(new_m, word & 0xFFFF)};
        v.value[e] = {math::StochasticBFloat16(new_v, word >> 16)};
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      weights.Store(data, i);
      Keep(data, kWeights, i, m);
      Keep(data, kWeights + 1, i, v);
    }
  };
};

template <typename Weights>
struct Bf16MomentumRule : RoundedStochastically {
  static constexpr int kWeights = Weights::kOperands;
  static constexpr int kUpdated = kWeights + 1;
  static constexpr bool kHasStep = true;
  static constexpr std::array<const char*, 2> kSettings = {"momentum", "decay"};
  static constexpr auto kBytes = BytesOf<Weights>(std::array<int, 1>{2});
  static constexpr int kWidth = 4;

  struct Constants {
    float lr, momentum, decay, scale;
    Rounding rounding;
  };
  STOWAGE_DEVICE static Constants At(const Group& group) {
    return {*group.lr,
            static_cast<float>(group.settings[0]),
            static_cast<float>(group.settings[1]),
            Scale(group),
            {*group.seed, *group.step}};
  }

  template <int n>
  struct Unit {
    typename Weights::template Unit<n> weights;
    Elements<BF16, n> velocity;
    Elements<typename Weights::Number, n> g;
    template <typename Data>
    STOWAGE_DEVICE void Load(const Data& data, int64_t i) {
      weights.Load(data, i);
      velocity = Fetch<BF16, n>(data, kWeights, i);
      g = Fetch<typename Weights::Number, n>(data, kUpdated, i);
    }
    STOWAGE_DEVICE void Update(const Constants& k, uint32_t id, int64_t i) {
      const Elements<uint32_t, n> words = k.rounding.template WordsOf<n>(id, i);
      for (int e = 0; e < n; ++e) {
        float w = weights.Get(e);
        float new_velocity = ToFloat(velocity.value[e]);
        math::MomentumStep(k.lr, k.momentum, k.decay,
                           ToFloat(g.value[e]) * k.scale, &w, &new_velocity);
        weights.Set(e, w);
        velocity.value[e] = {
            math::StochasticBFloat16(new_velocity, words.value[e] & 0xFFFF)};
      }
    }
    template <typename Data>
    STOWAGE_DEVICE void Store(const Data& data, int64_t i) const {
      weights.Store(data, i);
      Keep(data, kWeights, i, velocity);
    }
  };
};

// --- Moments of eight bits ----------------------------------------------------

template <typename Weights, typename MCode, typename VCode>
struct CodedAdamWRule : AdamOf<true>, UpdatedByBlock {
  static constexpr int kM = Weights::kOperands;
  static constexpr int kV = kM + 1;
  static constexpr int kMScale = kM + 2;
  static constexpr int kVScale = kM + 3;
  static constexpr int kUpdated = kM + 4;
  static constexpr auto kBytes =
      BytesOf<Weights>(std::array<int, 4>{1, 1, sizeof(float), sizeof(float)});
  static constexpr int kWidth = 4;

  template <typename Code, int n>
  STOWAGE_DEVICE static Elements<uint8_t, n> Encode(float inverse,
                                                    const float* x) {
    Elements<uint8_t, n> codes;
    STOWAGE_UNROLL
    for (int e = 0; e < n; ++e) {
      codes.value[e] = Code::Encode(x[e] * inverse);
    }
    return codes;
  }

  // The `count` elements from `at` on, which share scales, by a warp. Lanes have n
  // elements at a time, side by side; count is a multiple of n.
  template <int n, typename Data>
  STOWAGE_DEVICE static void UpdateBlock(const Constants& k, const Data& data,
                                         int64_t at, int count) {
    constexpr int kStride = kWarpSize * n;
    constexpr int kTurns = static_cast<int>(kMomentBlock) / kStride;
    float* m_scale =
        reinterpret_cast<float*>(data[kMScale]) + at / kMomentBlock;
    float* v_scale =
        reinterpret_cast<float*>(data[kVScale]) + at / kMomentBlock;
    const float old_m_scale = *m_scale;
    const float old_v_scale = *v_scale;
    float m[kTurns * n], v[kTurns * n];
    float m_top = 0, v_top = 0;
    STOWAGE_UNROLL
    for (int r = 0; r < kTurns; ++r) {
      const int i = r * kStride + Lane() * n;
      if (i >= count) continue;
      typename Weights::template Unit<n> weights;
      weights.Load(data, at + i);
      const auto m_codes = Fetch<uint8_t, n>(data, kM, at + i);
      const auto v_codes = Fetch<uint8_t, n>(data, kV, at + i);
      const auto g = Fetch<typename Weights::Number, n>(data, kUpdated, at + i);
      STOWAGE_UNROLL
      for (int e = 0; e < n; ++e) {
        float w = weights.Get(e);
        float& new_m = m[r * n + e];
        float& new_v = v[r * n + e];
        new_m = old_m_scale * MCode::Decode(m_codes.value[e]);
        new_v = old_v_scale * VCode::Decode(v_codes.value[e]);
        FusedAdamWStep(k.adamw, ToFloat(g.value[e]) * k.scale, &w, &new_m,
                       &new_v);
        weights.Set(e, w);
        m_top = Larger(m_top, ::fabsf(new_m));
        v_top = Larger(v_top, ::fabsf(new_v));
      }
      weights.Store(data, at + i);
    }
    m_top = WarpMax(m_top);
    v_top = WarpMax(v_top);
    const float m_inverse = math::InverseOf(m_top);
    const float v_inverse = math::InverseOf(v_top);
    STOWAGE_UNROLL
    for (int r = 0; r < kTurns; ++r) {
      const int i = r * kStride + Lane() * n;
      if (i >= count) continue;
      Keep(data, kM, at + i, Encode<MCode, n>(m_inverse, &m[r * n]));
      Keep(data, kV, at + i, Encode<VCode, n>(v_inverse, &v[r * n]));
    }
    SyncWarp();  // all lanes have read the scales
    if (Lane() == 0) {
      *m_scale = m_top;
      *v_scale = v_top;
    }
  }
};

template <typename Weights>
using DynamicAdamWRule =
    CodedAdamWRule<Weights, math::SignedDynamicCode, math::DynamicCode>;
template <typename Weights>
using CompandedAdamWRule =
    CodedAdamWRule<Weights, math::SignedCompandedCode, math::CompandedCode>;

// --- Entries ------------------------------------------------------------------

using LongSplit = SplitWeights<LongParts>;
using ShortSplit = SplitWeights<ShortParts>;

// Cuts the launches where `kind`, a number, changes, and calls run(kind, launches).
template <typename Kind, typename Run>
void ForEachKind(std::span<const Launch> launches, Kind kind, Run run) {
  while (!launches.empty()) {
    size_t count = 1;
    while (count < launches.size() &&
           kind(launches[count]) == kind(launches[0])) {
      ++count;
    }
    run(kind(launches[0]), launches.first(count));
    launches = launches.subspan(count);
  }
}

template <template <typename> typename Rule>
void EnqueueSplit(std::span<const Launch> launches, Queue& queue) {
  const auto is_short = [](const Launch& launch) {
    return launch.outputs[1].dtype() == DType::kU8;
  };
  ForEachKind(launches, is_short,
              [&](bool is, std::span<const Launch> of_a_kind) {
                if (is) {
                  EnqueueRule<Rule<ShortSplit>>(of_a_kind, queue);
                } else {
                  EnqueueRule<Rule<LongSplit>>(of_a_kind, queue);
                }
              });
}

template <template <typename> typename Rule>
void EnqueueWhole(std::span<const Launch> launches, Queue& queue) {
  EnqueueRule<Rule<WholeWeights>>(launches, queue);
}

using EnqueueFn = void (*)(std::span<const Launch>, Queue&);
template <EnqueueFn kDynamic, EnqueueFn kCompanded>
void EnqueueCoded(std::span<const Launch> launches, Queue& queue) {
  const auto is_companded = [](const Launch& launch) {
    return launch.attrs->Int("companded") != 0;
  };
  ForEachKind(launches, is_companded,
              [&](bool is, std::span<const Launch> of_a_kind) {
                (is ? kCompanded : kDynamic)(of_a_kind, queue);
              });
}

}  // namespace
}  // namespace updates

namespace kernels {

using updates::UpdateEntry;

constinit const GpuKernel AdamWSplitUpdate =
    UpdateEntry<updates::EnqueueSplit<updates::FullAdamWRule>>();
constinit const GpuKernel AdamWBf16Update =
    UpdateEntry<updates::EnqueueWhole<updates::Bf16AdamWRule>>();
constinit const GpuKernel AdamWBf16SplitUpdate =
    UpdateEntry<updates::EnqueueSplit<updates::Bf16AdamWRule>>();
constinit const GpuKernel AdamW8BitUpdate = UpdateEntry<updates::EnqueueCoded<
    updates::EnqueueWhole<updates::DynamicAdamWRule>,
    updates::EnqueueWhole<updates::CompandedAdamWRule>>>();
constinit const GpuKernel AdamW8BitSplitUpdate =
    UpdateEntry<updates::EnqueueCoded<
        updates::EnqueueSplit<updates::DynamicAdamWRule>,
        updates::EnqueueSplit<updates::CompandedAdamWRule>>>();
constinit const GpuKernel MomentumBf16Update =
    UpdateEntry<updates::EnqueueWhole<updates::Bf16MomentumRule>>();
constinit const GpuKernel MomentumBf16SplitUpdate =
    UpdateEntry<updates::EnqueueSplit<updates::Bf16MomentumRule>>();

}  // namespace kernels
}  // namespace stowage::gpu
