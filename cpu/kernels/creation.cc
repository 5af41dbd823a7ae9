// constant, fill, iota.

#include <cstring>
#include <type_traits>

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

// y[i] = f(i)
template <typename T, typename F>
void CountAll(const TensorView& y, ThreadPool& pool, const F& f) {
  ParallelRanges(pool, y.size(), kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) y.as<T>()[i] = f(i);
                 });
}

StepCode RunIota(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& y = launch.outputs[0];
  const double start = launch.attrs->Float("start");
  const double step = launch.attrs->Float("step");
  const auto at = [=](int64_t i) {
    return start + step * static_cast<double>(i);
  };
  switch (y.dtype()) {
    case DType::kF16:
      CountAll<uint16_t>(y, pool, [&](int64_t i) {
        return math::FloatToHalf(math::RoundToOddFloat(at(i)));
      });
      break;
    case DType::kBF16:
      CountAll<uint16_t>(y, pool, [&](int64_t i) {
        return math::FloatToBFloat16(math::RoundToOddFloat(at(i)));
      });
      break;
    default:
      OnNumber(y.dtype(), [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_integral_v<T>) {
          // The op has checked both ends; what is between may wrap around.
          const auto first = static_cast<uint64_t>(static_cast<int64_t>(start));
          const auto by = static_cast<uint64_t>(static_cast<int64_t>(step));
          CountAll<T>(y, pool, [&](int64_t i) {
            return static_cast<T>(first + by * static_cast<uint64_t>(i));
          });
        } else {
          CountAll<T>(y, pool,
                      [&](int64_t i) { return static_cast<T>(at(i)); });
        }
      });
  }
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Constant = {.run = RunConstant,
                                      .supports = SupportsAll};
constinit const CpuKernel Fill = {.run = RunFill, .supports = SupportsAll};
constinit const CpuKernel Iota = {.run = RunIota, .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
