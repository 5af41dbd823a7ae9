// constant, fill.

#include <cstring>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "math/small_floats.h"

namespace stowage::cpu {
namespace {

StepCode RunConstant(const Launch& launch, ThreadPool&) noexcept {
  const std::string& data = launch.attrs->Data("data");
  std::memcpy(launch.outputs[0].data, data.data(), data.size());
  return StepCode::kOk;
}

template <typename T>
void FillAll(const TensorView& y, T value, ThreadPool& pool) {
  ParallelRanges(pool, y.size(), kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   std::fill(y.as<T>() + begin, y.as<T>() + end, value);
                 });
}

StepCode RunFill(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& y = launch.outputs[0];
  const double value = launch.attrs->Float("value");
  switch (y.dtype()) {
    case DType::kF16:
      FillAll(y, math::FloatToHalf(math::RoundToOddFloat(value)), pool);
      break;
    case DType::kBF16:
      FillAll(y, math::FloatToBFloat16(math::RoundToOddFloat(value)), pool);
      break;
    default:  // the op has checked that an integer type holds the value
      OnNumber(y.dtype(), [&](auto zero) {
        FillAll(y, static_cast<decltype(zero)>(value), pool);
      });
  }
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Constant = {.run = RunConstant,
                                      .supports = SupportsAll};
constinit const CpuKernel Fill = {.run = RunFill, .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
