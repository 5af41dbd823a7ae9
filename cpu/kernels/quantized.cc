// quantized_matmul, quantized_gather: a frozen matrix read in the bytes of its file.

#include "cpu/kernel.h"
#include "cpu/kernels/chunks.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/kernels/indices.h"
#include "cpu/kernels/weight_blocks.h"
#include "ir/weight_type.h"
#include "runtime/block_matrix.h"

namespace stowage::cpu {
namespace {

StepCode RunMatMul(const Launch& launch, ThreadPool& pool) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const int64_t depth = x.shape().back();
  OnFloat(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    QuantizedProduct<T>(pool, x.size() / depth, {x.as<const T>(), depth, 1},
                        BlockMatrix(launch.inputs[1], *launch.attrs),
                        launch.attrs->Int("transpose_w") == 1,
                        {y.as<T>(), y.shape().back()},
                        reinterpret_cast<T*>(launch.workspace.data()));
  });
  return StepCode::kOk;
}

Bytes MatMulWorkspace(const OpArgs& args, std::span<const TensorType>,
                      int threads) {
  return OnFloat(args.type(0).dtype, [&](auto zero) -> Bytes {
    using T = decltype(zero);
    return threads *
           QuantizedScratch<T>(
               static_cast<WeightType>(args.attrs.Int("blocks"))) *
           SizeOf(DTypeOf<T>());
  });
}

StepCode RunGather(const Launch& launch, ThreadPool& pool) noexcept {
  const BlockMatrix table(launch.inputs[0], *launch.attrs);
  const TensorView& indices = launch.inputs[1];
  const TensorView& y = launch.outputs[0];
  return OnIndex(indices.dtype(), [&](auto index_zero) {
    const auto* index = indices.as<const decltype(index_zero)>();
    if (!InRange(index, indices.size(), table.rows)) {
      return StepCode::kIndexOutOfRange;
    }
    ParallelRanges(pool, indices.size(), RowsPerChunk(table.columns),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t i = begin; i < end; ++i) {
                       ReadNumbers(table, index[i], 0, table.columns,
                                   y.as<float>() + i * table.columns);
                     }
                   });
    return StepCode::kOk;
  });
}

}  // namespace

namespace kernels {

constinit const CpuKernel QuantizedMatMul = {.run = RunMatMul,
                                             .workspace = MatMulWorkspace};
constinit const CpuKernel QuantizedGather = {.run = RunGather,
                                             .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
