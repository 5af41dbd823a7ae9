#include "cpu/kernels/optimizer_updates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"
#include "cpu/kernels/vec.h"
#include "ir/element_groups.h"
#include "ir/tensor_type.h"
#include "math/optimizer.h"
#include "math/random.h"
#include "math/small_floats.h"

namespace stowage::cpu {
namespace {

// The table of the magnitudes of `Code`, SignedDynamicCode or DynamicCode.
template <typename Code>
struct DynamicTable {
  static constexpr bool kIsSigned =
      std::is_same_v<Code, math::SignedDynamicCode>;
  using Magnitudes = math::internal::DynamicMagnitudes<kIsSigned ? 0 : 1>;
  static constexpr int kShift = 17;                  // of a float's bits
  static constexpr int32_t kBase = (127 - 23) << 6;  // below 2^-23, all are one
  static constexpr size_t kIntervals = (23 << 6) + 1;

  // The number of the magnitude x >= 0.
  static constexpr int Nearest(float x) {
    const int j = Magnitudes::Nearest(x);
    return kIsSigned || j > 0 || !(x > 0) ? j : 1;
  }

  constexpr DynamicTable() {
    for (size_t i = 1; i < kIntervals; ++i) {
      first[i] = Nearest(
          std::bit_cast<float>((kBase + static_cast<int32_t>(i)) << kShift));
    }
    for (int j = 0; j < Magnitudes::kOne; ++j) {
      // Bisects between this number and the next.
      auto in = std::bit_cast<int32_t>(Magnitudes::Number(j));
      auto out = std::bit_cast<int32_t>(Magnitudes::Number(j + 1));
      while (out - in > 1) {
        const int32_t middle = in + (out - in) / 2;
        (Nearest(std::bit_cast<float>(middle)) <= j ? in : out) = middle;
      }
      last[static_cast<size_t>(j)] = in;
    }
    last.back() = std::numeric_limits<int32_t>::max();
  }

  // Numbers that are nearest to where an interval begins, and the bits of the last float
  // that a number is nearest to.
  std::array<int32_t, kIntervals> first = {};
  std::array<int32_t, Magnitudes::kOne + 1> last = {};
};

}  // namespace

// Without __restrict, loads by index are not vectorized.
template <typename Code>
void EncodeDynamic(const float* __restrict numbers, int64_t count,
                   float inverse, uint8_t* __restrict codes) {
  using Table = DynamicTable<Code>;
  static constexpr Table kTable;
  constexpr auto kOne = std::bit_cast<int32_t>(1.0f);
  constexpr auto kInfinity =
      std::bit_cast<int32_t>(std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < count; ++i) {
    // Floats that are not negative are in the order of their bits, below NaN.
    const auto bits = std::bit_cast<int32_t>(numbers[i] * inverse);
    int32_t magnitude = Table::kIsSigned ? bits & 0x7FFFFFFF : bits;
    magnitude = magnitude > kInfinity ? 0 : magnitude;
    magnitude = std::clamp(magnitude, 0, kOne);
    const int32_t interval =
        std::max((magnitude >> Table::kShift) - Table::kBase, 0);
    int32_t j = kTable.first[static_cast<size_t>(interval)];
    j += magnitude > kTable.last[static_cast<size_t>(j)] ? 1 : 0;
    j += magnitude > kTable.last[static_cast<size_t>(j)] ? 1 : 0;
    if (Table::kIsSigned) {
      const int32_t most = std::min(j, 127);  // -1 is no number
      j = bits < 0 ? -most : j;
    }
    codes[i] = static_cast<uint8_t>(j);
  }
}

template void EncodeDynamic<math::SignedDynamicCode>(const float*, int64_t,
                                                     float, uint8_t*);
template void EncodeDynamic<math::DynamicCode>(const float*, int64_t, float,
                                               uint8_t*);

// sgd_update, momentum_update, nesterov_update, rmsprop_update, adagrad_update,
// adam_update, adamw_update: in place over parameters and state, all of one type; the
// formulas are math/optimizer.h's.

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

// adamw_split_update, adamw_bf16_update, adamw_bf16_split_update, adamw_8bit_update,
// adamw_8bit_split_update, momentum_bf16_update, momentum_bf16_split_update: updates of split
// or low-precision numbers, by blocks that are converted to f32 and back.

namespace {

constexpr int64_t kBlock = kMomentBlock;
using Block = std::array<float, kBlock>;

// Elements `begin` and on, at most a block.
struct Range {
  int64_t begin, count;
};

// --- How weights are kept, and their gradients --------------------------------

struct WholeWeights {
  static constexpr size_t kOperands = 1;
  using Gradient = float;
  explicit WholeWeights(const Launch& launch)
      : w(launch.outputs[0].as<float>()) {}

  void Load(Range at, float* block) const {
    std::copy_n(w + at.begin, at.count, block);
  }
  void Store(Range at, const float* block) const {
    std::copy_n(block, at.count, w + at.begin);
  }
  float* w;
};

// Weights in `Parts`, SplitMaster or ShortSplitMaster.
template <typename Parts, Parts (*kSplit)(float), float (*kJoin)(Parts)>
struct SplitWeights {
  static constexpr size_t kOperands = 2;
  using Gradient = uint16_t;  // bf16
  using Delta = decltype(Parts::delta);
  explicit SplitWeights(const Launch& launch)
      : w(launch.outputs[0].as<uint16_t>()),
        delta(launch.outputs[1].as<Delta>()) {}

  void Load(Range at, float* block) const {
    for (int64_t i = 0; i < at.count; ++i) {
      block[i] = kJoin({w[at.begin + i], delta[at.begin + i]});
    }
  }
  void Store(Range at, const float* block) const {
    for (int64_t i = 0; i < at.count; ++i) {
      const Parts parts = kSplit(block[i]);
      w[at.begin + i] = parts.weight;
      delta[at.begin + i] = parts.delta;
    }
  }
  uint16_t* w;
  Delta* delta;
};
using LongSplit = SplitWeights<math::SplitMaster, math::Split, math::Join>;
using ShortSplit =
    SplitWeights<math::ShortSplitMaster, math::SplitShort, math::JoinShort>;

void LoadGradient(const float* g, int64_t count, float scale, float* block) {
  for (int64_t i = 0; i < count; ++i) block[i] = g[i] * scale;
}
void LoadGradient(const uint16_t* g, int64_t count, float scale, float* block) {
  for (int64_t i = 0; i < count; ++i) {
    block[i] = math::BFloat16ToFloat(g[i]) * scale;
  }
}

// --- Formats of moments ---------------------------------------------------------
//
// `first` is the index of the first operand of the moments; the scalars after the gradient
// are at `scalars`: lr, step and, with kHasSeed, seed.

struct FullMoments {
  static constexpr size_t kOperands = 2;
  static constexpr bool kHasSeed = false;
  FullMoments(const Launch& launch, size_t first, size_t)
      : m(launch.outputs[first].as<float>()),
        v(launch.outputs[first + 1].as<float>()) {}

  void Load(Range at, float* m_block, float* v_block) const {
    std::copy_n(m + at.begin, at.count, m_block);
    std::copy_n(v + at.begin, at.count, v_block);
  }
  void Store(Range at, const float* m_block, const float* v_block) const {
    std::copy_n(m_block, at.count, m + at.begin);
    std::copy_n(v_block, at.count, v + at.begin);
  }
  float* m;
  float* v;
};

// The random words of a launch's roundings.
struct Rounding {
  Rounding(const Launch& launch, size_t scalars)
      : key(math::DropoutKey(*launch.inputs[scalars + 2].as<const int64_t>(),
                             launch.attrs->Int("id"))),
        step(*launch.inputs[scalars + 1].as<const int64_t>()),
        first(launch.attrs->Int("first")) {}

  // f(i, word) for each of the elements; `begin` is a multiple of four.
  template <typename F>
  void ForEach(Range at, const F& f) const {
    for (int64_t i = 0; i < at.count; i += 4) {
      const math::Philox4 words =
          math::RoundingWords(key, step, (first + at.begin + i) / 4);
      for (int64_t j = i; j < std::min(i + 4, at.count); ++j) {
        f(j, words.word[j - i]);
      }
    }
  }
  math::PhiloxKey key;
  int64_t step;
  int64_t first;  // which of the numbers is for element 0
};

void WidenBf16(const uint16_t* from, int64_t count, float* to) {
  std::transform(from, from + count, to, math::BFloat16ToFloat);
}

struct Bf16Moments {
  static constexpr size_t kOperands = 2;
  static constexpr bool kHasSeed = true;
  Bf16Moments(const Launch& launch, size_t first, size_t scalars)
      : m(launch.outputs[first].as<uint16_t>()),
        v(launch.outputs[first + 1].as<uint16_t>()),
        rounding(launch, scalars) {}

  void Load(Range at, float* m_block, float* v_block) const {
    WidenBf16(m + at.begin, at.count, m_block);
    WidenBf16(v + at.begin, at.count, v_block);
  }
  void Store(Range at, const float* m_block, const float* v_block) const {
    rounding.ForEach(at, [&](int64_t i, uint32_t word) {
      m[at.begin + i] = math::StochasticBFloat16(m_block[i], word & 0xFFFF);
      v[at.begin + i] = math::StochasticBFloat16(v_block[i], word >> 16);
    });
  }
  uint16_t* m;
  uint16_t* v;
  Rounding rounding;
};

template <typename Code>
constexpr std::array<float, 256> DecodedBytes() {
  std::array<float, 256> numbers = {};
  for (int code = 0; code < 256; ++code) {
    numbers[static_cast<size_t>(code)] =
        Code::Decode(static_cast<uint8_t>(code));
  }
  return numbers;
}

// The largest magnitude; NaN if there is one. The bits of magnitudes have the same order,
// with NaN above all.
float LargestMagnitude(const float* numbers, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest =
        std::max(largest, std::bit_cast<int32_t>(numbers[i]) & 0x7FFFFFFF);
  }
  return std::bit_cast<float>(largest);
}

template <typename Code>
void Encode(const float* numbers, int64_t count, float inverse,
            uint8_t* codes) {
  if constexpr (std::is_same_v<Code, math::SignedDynamicCode> ||
                std::is_same_v<Code, math::DynamicCode>) {
    EncodeDynamic<Code>(numbers, count, inverse, codes);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      codes[i] = Code::Encode(numbers[i] * inverse);
    }
  }
}

// One of the two, of blocks of elements that share a scale.
template <typename Code>
struct CodedMoment {
  static constexpr std::array<float, 256> kNumbers = DecodedBytes<Code>();

  void Load(Range at, float* block) const {
    const float scale = scales[at.begin / kBlock];
    for (int64_t i = 0; i < at.count; ++i) {
      block[i] = scale * kNumbers[codes[at.begin + i]];
    }
  }
  void Store(Range at, const float* block) const {
    const float scale = LargestMagnitude(block, at.count);
    scales[at.begin / kBlock] = scale;
    Encode<Code>(block, at.count, math::InverseOf(scale), codes + at.begin);
  }
  uint8_t* codes;
  float* scales;
};

template <typename MCode, typename VCode>
struct CodedMoments {
  static constexpr size_t kOperands = 4;
  static constexpr bool kHasSeed = false;
  CodedMoments(const Launch& launch, size_t first, size_t)
      : m{launch.outputs[first].as<uint8_t>(),
          launch.outputs[first + 2].as<float>()},
        v{launch.outputs[first + 1].as<uint8_t>(),
          launch.outputs[first + 3].as<float>()} {}

  void Load(Range at, float* m_block, float* v_block) const {
    m.Load(at, m_block);
    v.Load(at, v_block);
  }
  void Store(Range at, const float* m_block, const float* v_block) const {
    m.Store(at, m_block);
    v.Store(at, v_block);
  }
  CodedMoment<MCode> m;
  CodedMoment<VCode> v;
};

// --- The updates --------------------------------------------------------------

float ScaleAt(const Launch& launch, size_t index) {
  return launch.inputs.size() > index ? *launch.inputs[index].as<const float>()
                                      : 1.0f;
}

// f(range) for the blocks of the weight.
template <typename F>
void ForEachBlock(const Launch& launch, ThreadPool& pool, const F& f) {
  static_assert(kChunkElements % kBlock == 0);
  ParallelRanges(pool, launch.outputs[0].size(), kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   for (; begin < end; begin += kBlock) {
                     f(Range{begin, std::min(kBlock, end - begin)});
                   }
                 });
}

template <typename Weights, typename Moments>
void UpdateAdamW(const Launch& launch, ThreadPool& pool) {
  constexpr size_t kGradient = Weights::kOperands + Moments::kOperands;
  constexpr size_t kScalars = kGradient + 1;
  const auto constants = math::AdamWConstants::At(
      *launch.inputs[kScalars + 1].as<const int64_t>(),
      *launch.inputs[kScalars].as<const float>(), launch.attrs->Float("beta1"),
      launch.attrs->Float("beta2"), launch.attrs->Float("eps"),
      launch.attrs->Float("decay"));
  const float scale =
      ScaleAt(launch, kScalars + 2 + (Moments::kHasSeed ? 1 : 0));
  if (math::SkipsUpdate(scale)) return;
  const Weights weights(launch);
  const Moments moments(launch, Weights::kOperands, kScalars);
  const auto* gradient =
      launch.inputs[kGradient].as<const typename Weights::Gradient>();
  ForEachBlock(launch, pool, [&](Range at) {
    Block ws, ms, vs, gs;
    weights.Load(at, ws.data());
    moments.Load(at, ms.data(), vs.data());
    LoadGradient(gradient + at.begin, at.count, scale, gs.data());
    ForEachVec<float>(at.count, [&](auto place) {
      Vec<float> w = place.Load(ws.data());
      Vec<float> m = place.Load(ms.data());
      Vec<float> v = place.Load(vs.data());
      math::AdamWStep(constants, place.Load(gs.data()), &w, &m, &v);
      place.Store(ws.data(), w);
      place.Store(ms.data(), m);
      place.Store(vs.data(), v);
    });
    weights.Store(at, ws.data());
    moments.Store(at, ms.data(), vs.data());
  });
}

template <typename Weights>
void UpdateMomentum(const Launch& launch, ThreadPool& pool) {
  constexpr size_t kGradient = Weights::kOperands + 1;
  constexpr size_t kScalars = kGradient + 1;
  const auto lr = *launch.inputs[kScalars].as<const float>();
  const auto momentum = static_cast<float>(launch.attrs->Float("momentum"));
  const auto decay = static_cast<float>(launch.attrs->Float("decay"));
  const float scale = ScaleAt(launch, kScalars + 3);
  if (math::SkipsUpdate(scale)) return;
  const Weights weights(launch);
  const TensorView& kept = launch.outputs[Weights::kOperands];
  auto* velocities = kept.as<uint16_t>();
  const Rounding rounding(launch, kScalars);
  const auto* gradient =
      launch.inputs[kGradient].as<const typename Weights::Gradient>();
  ForEachBlock(launch, pool, [&](Range at) {
    Block ws, velocity, gs;
    weights.Load(at, ws.data());
    WidenBf16(velocities + at.begin, at.count, velocity.data());
    LoadGradient(gradient + at.begin, at.count, scale, gs.data());
    for (int64_t i = 0; i < at.count; ++i) {
      math::MomentumStep(lr, momentum, decay, gs[i], &ws[i], &velocity[i]);
    }
    weights.Store(at, ws.data());
    rounding.ForEach(at, [&](int64_t i, uint32_t word) {
      velocities[at.begin + i] =
          math::StochasticBFloat16(velocity[i], word & 0xFFFF);
    });
  });
}

// Calls f with weights as `launch` keeps them, which are in two parts.
template <typename F>
void OnSplit(const Launch& launch, const F& f) {
  if (launch.outputs[1].dtype() == DType::kU8) {
    f.template operator()<ShortSplit>();
  } else {
    f.template operator()<LongSplit>();
  }
}

template <typename Moments>
StepCode RunSplitAdamW(const Launch& launch, ThreadPool& pool) noexcept {
  OnSplit(launch, [&]<typename Weights>() {
    UpdateAdamW<Weights, Moments>(launch, pool);
  });
  return StepCode::kOk;
}

StepCode RunAdamWBf16(const Launch& launch, ThreadPool& pool) noexcept {
  UpdateAdamW<WholeWeights, Bf16Moments>(launch, pool);
  return StepCode::kOk;
}

using DynamicMoments = CodedMoments<math::SignedDynamicCode, math::DynamicCode>;
using CompandedMoments =
    CodedMoments<math::SignedCompandedCode, math::CompandedCode>;

StepCode RunAdamW8Bit(const Launch& launch, ThreadPool& pool) noexcept {
  if (launch.attrs->Int("companded") != 0) {
    UpdateAdamW<WholeWeights, CompandedMoments>(launch, pool);
  } else {
    UpdateAdamW<WholeWeights, DynamicMoments>(launch, pool);
  }
  return StepCode::kOk;
}

StepCode RunAdamW8BitSplit(const Launch& launch, ThreadPool& pool) noexcept {
  return launch.attrs->Int("companded") != 0
             ? RunSplitAdamW<CompandedMoments>(launch, pool)
             : RunSplitAdamW<DynamicMoments>(launch, pool);
}

StepCode RunMomentumBf16(const Launch& launch, ThreadPool& pool) noexcept {
  UpdateMomentum<WholeWeights>(launch, pool);
  return StepCode::kOk;
}

StepCode RunMomentumBf16Split(const Launch& launch, ThreadPool& pool) noexcept {
  OnSplit(launch,
          [&]<typename Weights>() { UpdateMomentum<Weights>(launch, pool); });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel AdamWSplitUpdate = {.run = RunSplitAdamW<FullMoments>,
                                              .supports = SupportsAll};
constinit const CpuKernel AdamWBf16Update = {.run = RunAdamWBf16,
                                             .supports = SupportsAll};
constinit const CpuKernel AdamWBf16SplitUpdate = {
    .run = RunSplitAdamW<Bf16Moments>, .supports = SupportsAll};
constinit const CpuKernel AdamW8BitUpdate = {.run = RunAdamW8Bit,
                                             .supports = SupportsAll};
constinit const CpuKernel AdamW8BitSplitUpdate = {.run = RunAdamW8BitSplit,
                                                  .supports = SupportsAll};
constinit const CpuKernel MomentumBf16Update = {.run = RunMomentumBf16,
                                                .supports = SupportsAll};
constinit const CpuKernel MomentumBf16SplitUpdate = {
    .run = RunMomentumBf16Split, .supports = SupportsAll};

}  // namespace kernels

}  // namespace stowage::cpu
