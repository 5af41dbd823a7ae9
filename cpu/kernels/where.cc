// where: a choice between two operands, of any element type.

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/elementwise.h"

namespace stowage::cpu {
namespace {

StepCode RunWhere(const Launch& launch, ThreadPool& pool) noexcept {
  OnWidth(launch.outputs[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    Elementwise<T, uint8_t, T, T>(
        launch, pool,
        [](int64_t n, int64_t, T* y, const uint8_t* condition, const T* a,
           const T* b) {
          for (int64_t i = 0; i < n; ++i) y[i] = condition[i] ? a[i] : b[i];
        });
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel Where = {.run = RunWhere, .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
