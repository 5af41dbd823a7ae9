#include "cpu/widened.h"

#include <algorithm>

#include "cpu/kernels/dispatch.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage::cpu {

TensorType Wide(const TensorType& type) {
  return {ComputedIn(type.dtype), type.shape};
}

std::vector<TensorType> Wide(std::span<const TensorType> types) {
  std::vector<TensorType> wide;
  for (const TensorType& type : types) wide.push_back(Wide(type));
  return wide;
}

bool RunsWidened(const Graph& graph, const Node& node,
                 const KernelTable& table) {
  const CpuKernel& kernel = GetKernel(node.op, table);
  if (kernel.run == nullptr || node.inputs.size() > kMaxWidenedOperands)
    return false;
  OpArgsStorage storage;
  const OpArgs args = MakeOpArgs(graph, node, &storage);
  std::vector<TensorType> results;
  for (const ValueId id : node.results) results.push_back(graph.value(id).type);
  const auto is_half = [](const TensorType& t) { return IsHalf(t.dtype); };
  if (std::ranges::none_of(args.types, is_half) &&
      std::ranges::none_of(results, is_half)) {
    return false;
  }
  if (Takes(kernel, args)) return false;
  const std::vector<TensorType> wide = Wide(args.types);
  const OpArgs wide_args = {args.op, wide, args.names, args.attrs};
  if (!Takes(kernel, wide_args)) return false;
  const auto inferred = GetOpDef(node.op).infer(wide_args);
  return inferred.ok() && *inferred == Wide(results);
}

}  // namespace stowage::cpu
