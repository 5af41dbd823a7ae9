// join_weight, split_update.

#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "math/split_master.h"

namespace stowage::cpu {
namespace {

// f(i) for each element.
template <typename F>
void ForEachElement(const Launch& launch, ThreadPool& pool, const F& f) {
  ParallelRanges(pool, launch.outputs[0].size(), kChunkElements,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) f(i);
                 });
}

StepCode RunJoinWeight(const Launch& launch, ThreadPool& pool) noexcept {
  const auto* w = launch.inputs[0].as<const uint16_t>();
  const auto* delta = launch.inputs[1].as<const int16_t>();
  auto* y = launch.outputs[0].as<float>();
  ForEachElement(launch, pool, [=](int64_t i) {
    y[i] = math::Join({w[i], delta[i]});
  });
  return StepCode::kOk;
}

StepCode RunSplitUpdate(const Launch& launch, ThreadPool& pool) noexcept {
  const auto* x = launch.inputs[2].as<const float>();
  auto* w = launch.outputs[0].as<uint16_t>();
  auto* delta = launch.outputs[1].as<int16_t>();
  ForEachElement(launch, pool, [=](int64_t i) {
    const math::SplitMaster parts = math::Split(x[i]);
    w[i] = parts.weight;
    delta[i] = parts.delta;
  });
  return StepCode::kOk;
}

}  // namespace

namespace kernels {

constinit const CpuKernel JoinWeight = {.run = RunJoinWeight,
                                        .supports = SupportsAll};
constinit const CpuKernel SplitUpdate = {.run = RunSplitUpdate,
                                         .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
