// cumsum. Where lines are next to each other, a thread goes along each; along the
// last axis a warp does, 32 elements at a time.

#include <cstdint>

#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/kernels/totals.h"
#include "gpu/simt.h"
#include "ir/element_groups.h"

namespace stowage::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

// y may be x: no element is read again after it has been written.
struct ScanParams {
  const void* x;
  void* y;
  int64_t lines, length, inner;
  int32_t exclusive, reverse;
};

template <typename T>
STOWAGE_KERNEL(kThreads)
ScanColumns(STOWAGE_PARAMS(ScanParams) p) {
  const int64_t line = int64_t{BlockId()} * kThreads + ThreadId();
  if (line >= p.lines) return;
  const int64_t outer = line / p.inner;
  const int64_t first = outer * p.length * p.inner + line - outer * p.inner;
  Total<T> sum = 0;
  for (int64_t i = 0; i < p.length; ++i) {
    const int64_t at =
        first + (p.reverse != 0 ? p.length - 1 - i : i) * p.inner;
    const Total<T> before = sum;
    sum += Widen(static_cast<const T*>(p.x)[at]);
    static_cast<T*>(p.y)[at] = Narrow<T>(p.exclusive != 0 ? before : sum);
  }
}

template <typename T>
STOWAGE_KERNEL(kThreads)
ScanRows(STOWAGE_PARAMS(ScanParams) p) {
  const int64_t line = int64_t{BlockId()} * kWarps + Warp();
  if (line >= p.lines) return;
  const T* x = static_cast<const T*>(p.x) + line * p.length;
  T* y = static_cast<T*>(p.y) + line * p.length;
  Total<T> before = 0;  // the sum of what came before these 32
  for (int64_t first = 0; first < p.length; first += kWarpSize) {
    const int64_t i = first + Lane();
    const int64_t at = p.reverse != 0 ? p.length - 1 - i : i;
    Total<T> sum = i < p.length ? Widen(x[at]) : Total<T>{0};
    for (int delta = 1; delta < kWarpSize; delta *= 2) {
      const bool has = Lane() >= delta;
      const Total<T> other = Shuffle(sum, has ? Lane() - delta : Lane());
      if (has) sum += other;
    }
    const Total<T> last = Shuffle(sum, Lane() > 0 ? Lane() - 1 : 0);
    const Total<T> without = Lane() > 0 ? last : Total<T>{0};
    if (i < p.length) {
      y[at] = Narrow<T>(before + (p.exclusive != 0 ? without : sum));
    }
    before += Shuffle(sum, kWarpSize - 1);
  }
}

void EnqueueCumSum(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const AxisLines lines =
      AxisLines::Along(x.shape(), launch.attrs->Int("axis"));
  const ScanParams p = {
      .x = x.data,
      .y = launch.outputs[0].data,
      .lines = lines.outer * lines.inner,
      .length = lines.length,
      .inner = lines.inner,
      .exclusive = static_cast<int32_t>(launch.attrs->Int("exclusive")),
      .reverse = static_cast<int32_t>(launch.attrs->Int("reverse"))};
  const bool rows = lines.inner == 1;
  OnNumber(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    LaunchKernel(queue, "cumsum", rows ? ScanRows<T> : ScanColumns<T>, p,
                 {.x = BlocksFor(p.lines, rows ? kWarps : kThreads)}, kThreads);
  });
}

}  // namespace

namespace kernels {

constinit const GpuKernel CumSum = {.enqueue = EnqueueCumSum,
                                    .supports = SupportsNumbers};

}  // namespace kernels
}  // namespace stowage::gpu
