#ifndef STOWAGE_GPU_KERNELS_ELEMENTWISE_ATTRS_H_
#define STOWAGE_GPU_KERNELS_ELEMENTWISE_ATTRS_H_

// The kernel under elementwise ops that have numbers among their attributes:
// y = f(operands...), where f is made from the attributes, computes floats whatever
// type they are stored in, and is two floats itself.
//
//   struct ClampFn {
//     explicit ClampFn(const Attrs& attrs)
//         : min(Number(attrs, "min")), max(Number(attrs, "max")) {}
//     STOWAGE_DEVICE float operator()(float x) const;
//     float min, max;
//   };
//   constinit const GpuKernel Clamp = {.enqueue = EnqueueWithAttrs<ClampFn, 1>};

#include <array>
#include <cstdint>
#include <string_view>

#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/elementwise.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/attrs.h"
#include "ir/op_kind.h"
#include "runtime/kernel.h"

namespace stowage::gpu {

inline float Number(const Attrs& attrs, std::string_view name) {
  return static_cast<float>(attrs.Float(name));
}

template <typename F, int inputs>
struct AttrsMapParams {
  static constexpr int kInputs = inputs;
  MapParams<1 + inputs> map;
  F f;
};

namespace internal {

inline constexpr int kAttrsMapThreads = 256;

// The unit of n elements at the offsets of the operands.
template <typename T, int n, typename Params>
STOWAGE_DEVICE Elements<T, n> MapWithAttrs(const Params& p,
                                           const int32_t* offset) {
  const auto a = LoadOperand<1, T, n>(p.map, offset[1]);
  Elements<T, n> y;
  if constexpr (Params::kInputs == 1) {
    for (int i = 0; i < n; ++i) {
      y.value[i] = FromFloat<T>(p.f(ToFloat(a.value[i])));
    }
  } else {
    const auto b = LoadOperand<2, T, n>(p.map, offset[2]);
    for (int i = 0; i < n; ++i) {
      y.value[i] = FromFloat<T>(p.f(ToFloat(a.value[i]), ToFloat(b.value[i])));
    }
  }
  return y;
}

template <typename Params, typename T, int kWidth>
STOWAGE_KERNEL(kAttrsMapThreads)
AttrsMapKernel(STOWAGE_PARAMS(Params) p) {
  constexpr int kInputs = Params::kInputs;
  T* y = reinterpret_cast<T*>(p.map.data[0]);
  const auto thread = static_cast<uint32_t>(ThreadId());
  const uint32_t unit =
      static_cast<uint32_t>(BlockId()) * kAttrsMapThreads + thread;
  if (unit < p.map.units) {
    int32_t offset[1][1 + kInputs];
    p.map.walk.Locate({unit}, offset);
    StoreElements(y + offset[0][0], MapWithAttrs<T, kWidth>(p, offset[0]));
  }
  if (kWidth > 1 && BlockId() == 0 && thread < p.map.tail) {
    const auto at = static_cast<int32_t>(p.map.units * kWidth + thread);
    int32_t offset[1 + kInputs];
    for (int k = 0; k <= kInputs; ++k) offset[k] = TailOffset(p.map, k, at);
    StoreElements(y + at, MapWithAttrs<T, 1>(p, offset));
  }
}

}  // namespace internal

/// A GpuKernel::enqueue: result 0 is F(attributes) of the first `kInputs` operands,
/// one or two.
template <typename F, int kInputs>
void EnqueueWithAttrs(const Launch& launch, Queue& queue) {
  std::array<const TensorView*, static_cast<size_t>(kInputs)> x;
  for (size_t k = 0; k < x.size(); ++k) x[k] = &launch.inputs[k];
  OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = kPackSize<T>;
    ForEachGrid<1 + kInputs>(
        launch.outputs[0], x, kWidth,
        [&](const MapParams<1 + kInputs>& map, bool wide, int64_t) {
          using Params = AttrsMapParams<F, kInputs>;
          const Params p = {map, F(*launch.attrs)};
          LaunchKernel(queue, OpName(launch.op).data(),
                       wide ? internal::AttrsMapKernel<Params, T, kWidth>
                            : internal::AttrsMapKernel<Params, T, 1>,
                       p,
                       {.x = BlocksFor(map.units, internal::kAttrsMapThreads)},
                       internal::kAttrsMapThreads);
        });
  });
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ELEMENTWISE_ATTRS_H_
