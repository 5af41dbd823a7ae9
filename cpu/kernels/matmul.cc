#include "cpu/kernels/matmul.h"

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"

namespace stowage::cpu {
namespace {

StepCode RunMatMul(const Launch& launch, ThreadPool& pool) noexcept {
  OnFloat(ComputedIn(launch.outputs[0].dtype()), [&](auto zero) {
    using T = decltype(zero);
    RunProduct<T>(launch, pool, launch.outputs[0], NoTail<T>());
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel MatMul = {
    .run = RunMatMul, .workspace = MatMulWorkspace, .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
