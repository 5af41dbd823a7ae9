// random_uniform, random_normal and dropout: functions of the element's number
// (math/random.h). A thread computes four elements. Dropout's mask is computed where it is
// used, never stored.

#include "math/random.h"

#include <cstdint>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/simt.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;

struct RandomParams {
  void* y;
  const int64_t* seed;
  const int64_t* step;
  int64_t id;
  int64_t count;  // elements
};

// The bits of a fraction that the type holds exactly.
template <typename T>
inline constexpr int kFractionBits = std::is_same_v<T, float> ? 24
                                     : std::is_same_v<T, F16> ? 11
                                                              : 8;

template <typename T, math::RandomStream kStream>
STOWAGE_KERNEL(kThreads)
RandomKernel(STOWAGE_PARAMS(RandomParams) p) {
  const int64_t quad = int64_t{BlockId()} * kThreads + ThreadId();
  if (quad * 4 >= p.count) return;
  const math::Philox4 words =
      math::Philox4x32(math::RandomCounter(kStream, *p.step, quad),
                       math::DropoutKey(*p.seed, p.id));
  float numbers[4];
  if constexpr (kStream == math::RandomStream::kNormal) {
    math::NormalPair(words.word[0], words.word[1], &numbers[0], &numbers[1]);
    math::NormalPair(words.word[2], words.word[3], &numbers[2], &numbers[3]);
  } else {
    STOWAGE_UNROLL
    for (int i = 0; i < 4; ++i) {
      numbers[i] = math::Fraction<float, kFractionBits<T>>(words.word[i]);
    }
  }
  T* y = static_cast<T*>(p.y) + quad * 4;
  STOWAGE_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (quad * 4 + i < p.count) y[i] = FromFloat<T>(numbers[i]);
  }
}

template <math::RandomStream kStream>
void Enqueue(const Launch& launch, Queue& queue) {
  const TensorView& y = launch.outputs[0];
  const RandomParams p = {.y = y.data,
                          .seed = launch.inputs[0].as<const int64_t>(),
                          .step = launch.inputs[1].as<const int64_t>(),
                          .id = launch.attrs->Int("id"),
                          .count = y.size()};
  OnFloat(y.dtype(), [&](auto zero) {
    LaunchKernel(queue, OpName(launch.op).data(),
                 RandomKernel<decltype(zero), kStream>, p,
                 {.x = BlocksFor(p.count, 4 * kThreads)}, kThreads);
  });
}

bool SupportsRandom(const OpArgs& args) {
  return IsComputedFloat(args.attrs.Type("dtype"));
}

// --- dropout -----------------------------------------------------------------

struct DropoutParams {
  MapParams<2> map;
  const int64_t* seed;
  const int64_t* step;
  int64_t id;
  int64_t first;       // the number of the element at data[0]
  uint64_t threshold;  // of the words that keep an element
  float scale;         // of what is kept
};

// Element i of a quad takes word i.
STOWAGE_DEVICE uint32_t Word(const math::Philox4& words, int i) {
  return i == 0   ? words.word[0]
         : i == 1 ? words.word[1]
         : i == 2 ? words.word[2]
                  : words.word[3];
}

// Elements from `number` on: whole quads, or one element.
template <typename T, int n>
STOWAGE_DEVICE Elements<T, n> Drop(const DropoutParams& p,
                                   const Elements<T, n>& x, int64_t number) {
  const math::PhiloxKey key = math::DropoutKey(*p.seed, p.id);
  const int64_t step = *p.step;
  Elements<T, n> y;
  for (int i = 0; i < n; i += 4) {
    const int64_t quad = (number + i) / 4;
    const math::Philox4 words =
        math::Philox4x32(math::DropoutCounter(step, quad), key);
    for (int j = 0; j < (n < 4 ? n : 4); ++j) {
      const uint32_t word =
          Word(words, n == 1 ? static_cast<int>(number % 4) : j);
      const float kept = ToFloat(x.value[i + j]) * p.scale;
      y.value[i + j] = FromFloat<T>(word >= p.threshold ? kept : 0.0f);
    }
  }
  return y;
}

template <typename T, int kWidth>
STOWAGE_KERNEL(kThreads)
DropoutKernel(STOWAGE_PARAMS(DropoutParams) p) {
  T* y = reinterpret_cast<T*>(p.map.data[0]);
  const auto thread = static_cast<uint32_t>(ThreadId());
  const uint32_t unit = static_cast<uint32_t>(BlockId()) * kThreads + thread;
  if (unit < p.map.units) {
    int32_t offset[1][2];
    p.map.walk.Locate({unit}, offset);
    const auto x = LoadOperand<1, T, kWidth>(p.map, offset[0][1]);
    StoreElements(y + offset[0][0],
                  Drop<T, kWidth>(p, x, p.first + offset[0][0]));
  }
  if (kWidth > 1 && BlockId() == 0 && thread < p.map.tail) {
    const auto at = static_cast<int32_t>(p.map.units * kWidth + thread);
    const auto x = LoadOperand<1, T, 1>(p.map, TailOffset(p.map, 1, at));
    StoreElements(y + at, Drop<T, 1>(p, x, p.first + at));
  }
}

void EnqueueDropout(const Launch& launch, Queue& queue) {
  const double drop = launch.attrs->Float("p");
  DropoutParams p = {};
  p.seed = launch.inputs[1].as<const int64_t>();
  p.step = launch.inputs[2].as<const int64_t>();
  p.id = launch.attrs->Int("id");
  p.threshold = math::DropoutThreshold(drop);
  p.scale = static_cast<float>(1 / (1 - drop));
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    ForEachGrid<2>(launch.outputs[0], {&launch.inputs[0]}, kPackSize<T>,
                   [&](const MapParams<2>& map, bool wide, int64_t first) {
                     p.map = map;
                     p.first = first;
                     LaunchKernel(queue, "dropout",
                                  wide ? DropoutKernel<T, kPackSize<T>>
                                       : DropoutKernel<T, 1>,
                                  p, {.x = BlocksFor(map.units, kThreads)},
                                  kThreads);
                   });
  });
}

}  // namespace

namespace kernels {

constinit const GpuKernel RandomUniform = {
    .enqueue = Enqueue<math::RandomStream::kUniform>,
    .supports = SupportsRandom};
constinit const GpuKernel RandomNormal = {
    .enqueue = Enqueue<math::RandomStream::kNormal>,
    .supports = SupportsRandom};

constinit const GpuKernel Dropout = {.enqueue = EnqueueDropout};

}  // namespace kernels
}  // namespace stowage::gpu
