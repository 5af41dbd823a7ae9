// all_reduce, reduce_scatter, all_gather, all_gather_update, own_block.

#include <algorithm>
#include <cstring>

#include "cpu/kernel.h"
#include "cpu/kernels/dispatch.h"
#include "runtime/backend.h"

namespace stowage::cpu {
namespace {

std::span<std::byte> BytesOf(const TensorView& view) {
  return {view.data, static_cast<size_t>(view.type.bytes())};
}

StepCode CodeOf(bool done) {
  return done ? StepCode::kOk : StepCode::kRankLost;
}

// This rank's part of `whole`, which `block` is as large as or larger.
std::span<std::byte> OwnPart(std::span<std::byte> whole, size_t block,
                             int rank) {
  const size_t begin =
      std::min(whole.size(), block * static_cast<size_t>(rank));
  return whole.subspan(begin, std::min(block, whole.size() - begin));
}

// Clears the end of a block that is shorter than the others.
void ClearRest(std::span<std::byte> block, size_t part) {
  if (part < block.size()) {
    std::memset(block.data() + part, 0, block.size() - part);
  }
}

StepCode RunAllReduce(const Launch& launch, Collectives& ranks) noexcept {
  const TensorView& x = launch.inputs[0];
  const TensorView& y = launch.outputs[0];
  const std::span<std::byte> values = BytesOf(y);
  if (x.data != y.data) std::memcpy(y.data, x.data, values.size());
  return CodeOf(ranks.AllReduce(y.dtype(), values, launch.workspace));
}

StepCode RunReduceScatter(const Launch& launch, Collectives& ranks) noexcept {
  const TensorView& x = launch.inputs[0];
  const std::span<std::byte> block = BytesOf(launch.outputs[0]);
  const std::span<std::byte> values = BytesOf(x);
  ClearRest(block, OwnPart(values, block.size(), ranks.rank()).size());
  return CodeOf(
      ranks.ReduceScatter(x.dtype(), values, block, launch.workspace));
}

// Copies the last operand to the result, which is the target of an update.
StepCode RunAllGather(const Launch& launch, Collectives& ranks) noexcept {
  return CodeOf(ranks.AllGather(BytesOf(launch.inputs.back()),
                                BytesOf(launch.outputs[0])));
}

StepCode RunOwnBlock(const Launch& launch, Collectives& ranks) noexcept {
  const std::span<std::byte> block = BytesOf(launch.outputs[0]);
  const std::span<std::byte> part =
      OwnPart(BytesOf(launch.inputs[0]), block.size(), ranks.rank());
  if (!part.empty()) std::memcpy(block.data(), part.data(), part.size());
  ClearRest(block, part.size());
  return StepCode::kOk;
}

Bytes ScratchOfAllReduce(const OpArgs& args, std::span<const TensorType>, int) {
  return CollectiveScratch(args.type(0).bytes(), args.attrs.Int("ranks"));
}
Bytes ScratchOfReduceScatter(const OpArgs& args,
                             std::span<const TensorType> blocks, int) {
  const int64_t ranks = args.attrs.Int("ranks");
  return CollectiveScratch(blocks[0].bytes() * ranks, ranks);
}

}  // namespace

namespace kernels {

constinit const CpuKernel AllReduce = {.run_among_ranks = RunAllReduce,
                                       .workspace = ScratchOfAllReduce,
                                       .supports = SupportsAll};
constinit const CpuKernel ReduceScatter = {.run_among_ranks = RunReduceScatter,
                                           .workspace = ScratchOfReduceScatter,
                                           .supports = SupportsAll};
constinit const CpuKernel AllGather = {.run_among_ranks = RunAllGather,
                                       .supports = SupportsAll};
constinit const CpuKernel AllGatherUpdate = {.run_among_ranks = RunAllGather,
                                             .supports = SupportsAll};
constinit const CpuKernel OwnBlock = {.run_among_ranks = RunOwnBlock,
                                      .supports = SupportsAll};

}  // namespace kernels
}  // namespace stowage::cpu
