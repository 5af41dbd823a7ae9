// cumsum: a strip of neighbouring lines at a time, element after element.

#include <algorithm>
#include <type_traits>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "ir/lines.h"

namespace stowage::cpu {
namespace {

constexpr int64_t kStrip = 64;  // lines

// What is added up: f64, or 64 bits, which wrap around, for integers.
template <typename T>
using Total = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;

struct Direction {
  bool exclusive, reverse;
};

// `count` lines from x and y on, whose elements are `inner` apart. x may be y.
template <typename T>
void SumStrip(const T* x, T* y, int64_t length, int64_t inner, int64_t count,
              Direction direction) {
  Total<T> sums[kStrip] = {};
  for (int64_t i = 0; i < length; ++i) {
    const int64_t at = (direction.reverse ? length - 1 - i : i) * inner;
    for (int64_t j = 0; j < count; ++j) {
      const Total<T> before = sums[j];
      sums[j] += static_cast<Total<T>>(x[at + j]);
      y[at + j] = static_cast<T>(direction.exclusive ? before : sums[j]);
    }
  }
}

StepCode RunCumSum(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const Lines lines = Lines::Along(x.shape(), launch.attrs->Int("axis"));
  const Direction direction = {launch.attrs->Int("exclusive") == 1,
                               launch.attrs->Int("reverse") == 1};
  const int64_t strips = CeilDiv(lines.inner, kStrip);
  const int64_t in_strip = lines.length * std::min(lines.inner, kStrip);
  OnNumber(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    ParallelRanges(pool, lines.outer * strips, RowsPerChunk(in_strip),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t strip = begin; strip < end; ++strip) {
                       const int64_t first = strip % strips * kStrip;
                       const int64_t offset =
                           strip / strips * lines.length * lines.inner + first;
                       SumStrip(x.as<const T>() + offset, y.as<T>() + offset,
                                lines.length, lines.inner,
                                std::min(kStrip, lines.inner - first),
                                direction);
                     }
                   });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel CumSum = {.run = RunCumSum,
                                    .supports = SupportsNumbers};

}  // namespace kernels
}  // namespace stowage::cpu
