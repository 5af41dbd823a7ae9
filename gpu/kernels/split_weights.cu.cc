// join_weight, split_update.

#include <cstddef>
#include <cstdint>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/simt.h"
#include "math/optimizer.h"
#include "math/small_floats.h"

namespace stowage::gpu {
namespace {

// Of a bf16, which is exact as a float, and the bits that it lacks.
struct JoinFn {
  STOWAGE_DEVICE float operator()(RoughFloat weight, int16_t delta) const {
    const uint32_t upper = math::FloatBits(static_cast<float>(weight));
    return math::BitsFloat(upper + static_cast<uint32_t>(int32_t{delta}));
  }
};

void EnqueueJoinWeight(const Launch& launch, Queue& queue) {
  EnqueueMap<JoinFn, float, BF16, int16_t>(
      "join_weight", queue, launch.outputs[0],
      {&launch.inputs[0], &launch.inputs[1]});
}

constexpr int kThreads = 256;

struct SplitParams {
  const float* x;
  BF16* w;
  int16_t* delta;
  int64_t n;
};

// A thread splits kWidth neighbouring elements.
template <int kWidth>
STOWAGE_KERNEL(kThreads)
SplitKernel(STOWAGE_PARAMS(SplitParams) p) {
  const int64_t i = (int64_t{BlockId()} * kThreads + ThreadId()) * kWidth;
  if (i >= p.n) return;
  const auto x = LoadElementsOnce<float, kWidth>(p.x + i);
  Elements<BF16, kWidth> w;
  Elements<int16_t, kWidth> delta;
  for (int e = 0; e < kWidth; ++e) {
    const math::SplitMaster parts = math::Split(x.value[e]);
    w.value[e] = {parts.weight};
    delta.value[e] = parts.delta;
  }
  StoreElementsOnce(p.w + i, w);
  StoreElementsOnce(p.delta + i, delta);
}

bool IsAligned(const TensorView& view, size_t bytes) {
  return reinterpret_cast<uintptr_t>(view.data) % bytes == 0;
}

void EnqueueSplitUpdate(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[2];
  const SplitParams params = {.x = x.as<const float>(),
                              .w = launch.outputs[0].as<BF16>(),
                              .delta = launch.outputs[1].as<int16_t>(),
                              .n = x.size()};
  const bool is_wide = params.n % 4 == 0 && IsAligned(x, 16) &&
                       IsAligned(launch.outputs[0], 8) &&
                       IsAligned(launch.outputs[1], 8);
  const Grid grid = {
      .x = BlocksFor(is_wide ? params.n / 4 : params.n, kThreads)};
  if (is_wide) {
    LaunchKernel(queue, "split_update", SplitKernel<4>, params, grid, kThreads);
  } else {
    LaunchKernel(queue, "split_update", SplitKernel<1>, params, grid, kThreads);
  }
}

}  // namespace

namespace kernels {

constinit const GpuKernel JoinWeight = {.enqueue = EnqueueJoinWeight,
                                        .supports = SupportsAll};
constinit const GpuKernel SplitUpdate = {.enqueue = EnqueueSplitUpdate,
                                         .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::gpu
