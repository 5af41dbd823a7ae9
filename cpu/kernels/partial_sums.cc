// sum_partials: of each operand the sum over its rows, in order, rounded once.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/half_floats.h"

namespace stowage::cpu {
namespace {

void Store(const TensorView& to, int64_t first, std::span<const double> sums) {
  std::ranges::copy(sums, to.as<double>() + first);
}
void Store(const TensorView& to, int64_t first, std::span<const float> sums) {
  if (IsHalf(to.dtype())) {
    Narrow(to.dtype(), static_cast<int64_t>(sums.size()), sums.data(),
           to.data + first * SizeOf(to.dtype()));
  } else {
    std::ranges::copy(sums, to.as<float>() + first);
  }
}

template <typename T>
void SumRows(const TensorView& partial, const TensorView& to) {
  constexpr int64_t kColumns = 256;  // at a time, on the stack
  const int64_t parts = partial.shape()[0], n = partial.shape()[1];
  for (int64_t first = 0; first < n; first += kColumns) {
    const int64_t count = std::min(kColumns, n - first);
    std::array<T, kColumns> sums = {};
    for (int64_t part = 0; part < parts; ++part) {
      const T* row = partial.as<const T>() + part * n + first;
      for (int64_t i = 0; i < count; ++i)
        sums[static_cast<size_t>(i)] += row[i];
    }
    Store(to, first,
          std::span<const T>(sums).first(static_cast<size_t>(count)));
  }
}

StepCode RunSumPartials(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(launch.inputs[0].dtype(), [&](auto zero) {
    ParallelRanges(pool, static_cast<int64_t>(launch.inputs.size()), 1,
                   [&](int64_t begin, int64_t end) {
                     for (auto i = static_cast<size_t>(begin);
                          i < static_cast<size_t>(end); ++i) {
                       SumRows<decltype(zero)>(launch.inputs[i],
                                               launch.outputs[i]);
                     }
                   });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel SumPartials = {.run = RunSumPartials};

}  // namespace kernels
}  // namespace stowage::cpu
