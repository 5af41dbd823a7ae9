#include "gpu/gpu_needs.h"

#include <vector>

#include "gpu/gpu_executable.h"
#include "gpu/kernel.h"
#include "gpu/step_record.h"
#include "ir/layout.h"

namespace stowage {

Bytes GpuWorkspace(const Graph& graph, const Node& node) {
  const auto workspace = gpu::GetKernel(node.op).workspace;
  if (workspace == nullptr) return 0;
  // What has no kernel needs no scratch; a session refuses it.
  if (!gpu::Supports(graph, node).ok()) return 0;
  OpArgsStorage storage;
  const OpArgs args = MakeOpArgs(graph, node, &storage);
  std::vector<TensorType> results;
  for (const ValueId id : node.results) {
    results.push_back(graph.value(id).type);
  }
  return workspace(args, results);
}

Bytes GpuReserve(const Graph& graph, Bytes alignment) {
  const Bytes slot = gpu::SlotBytes(graph, alignment);
  const auto slots = CheckedMul(2, slot);
  const auto bytes =
      slots ? CheckedAdd(*slots, gpu::ReserveBytes(0)) : std::nullopt;
  return bytes.value_or(slot);  // the plan finds the sum too large
}

Status GpuSupports(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    STOWAGE_RETURN_IF_ERROR(gpu::Supports(graph, node));
  }
  return {};
}

Fusions GpuFusions() {
  return {
      .elementwise = gpu::FusesOp,
      .epilogues = true,
      .updates =
          [](OpKind op) { return gpu::GetKernel(op).enqueue_many != nullptr; },
      .sum_parts = gpu::SumPartsOf};
}

DeviceNeeds GpuNeeds() {
  return {.workspace = GpuWorkspace,
          .reserve = GpuReserve,
          .fusions = GpuFusions(),
          .device = "cuda"};
}

}  // namespace stowage
