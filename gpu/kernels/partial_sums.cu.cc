// sum_partials: the second grid of the gradients of norms, for as many as params have
// room for at once.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "gpu/kernel.h"
#include "gpu/kernels/column_sums.h"
#include "gpu/kernels/dispatch.h"

namespace stowage::gpu {
namespace {

constexpr size_t kMax = kMaxParamBytes / sizeof(ColumnSum);

void EnqueueSumPartials(const Launch& launch, Queue& queue) {
  for (size_t first = 0; first < launch.inputs.size(); first += kMax) {
    std::array<ColumnSum, kMax> sums = {};
    const size_t count = std::min(kMax, launch.inputs.size() - first);
    for (size_t i = 0; i < count; ++i) {
      const TensorView& partial = launch.inputs[first + i];
      sums[i] = {.partial = partial.as<const float>(),
                 .to = launch.outputs[first + i].data,
                 .n = partial.shape()[1],
                 .blocks = partial.shape()[0]};
    }
    OnFloat(launch.outputs[0].dtype(), [&](auto zero) {
      EnqueueColumnSums<decltype(zero), kMax>(
          "sum_partials", std::span(sums).first(count), queue);
    });
  }
}

}  // namespace

int64_t SumPartsOf(const OpArgs& args) {
  if (args.op != OpKind::kLayerNormGrad &&
      args.op != OpKind::kLayerNormGradAdd && args.op != OpKind::kRmsNormGrad) {
    return 0;
  }
  return SumBlocks(args.shape(0).num_elements() / args.shape(0).back());
}

namespace kernels {

constinit const GpuKernel SumPartials = {.enqueue = EnqueueSumPartials};

}  // namespace kernels
}  // namespace stowage::gpu
