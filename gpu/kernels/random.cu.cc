// random_uniform, random_normal: a function of the element's number (math/random.h),
// four of which a thread makes.

#include "math/random.h"

#include <cstdint>
#include <type_traits>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
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

// Bits of a fraction that the type holds exactly.
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

}  // namespace

namespace kernels {

constinit const GpuKernel RandomUniform = {
    .enqueue = Enqueue<math::RandomStream::kUniform>,
    .supports = SupportsRandom};
constinit const GpuKernel RandomNormal = {
    .enqueue = Enqueue<math::RandomStream::kNormal>,
    .supports = SupportsRandom};

}  // namespace kernels
}  // namespace stowage::gpu
