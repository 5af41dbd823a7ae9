#include "cpu/kernel.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/targets.h"
#include "ir/bodies.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage::cpu {
namespace {

constinit std::array<CpuKernel, kMaxCustomOps> custom_kernels;

}  // namespace

Status DefineKernel(OpKind op, const CpuKernel& kernel) {
  STOWAGE_ASSIGN_OR_RETURN(const size_t index, CustomOpIndex(op, "CPU kernel"));
  custom_kernels[index] = kernel;
  return {};
}

const CpuKernel& GetKernel(OpKind op, const KernelTable& table) {
  if (const auto index = CustomIndex(op)) return custom_kernels[*index];
  return *table.of_op[static_cast<size_t>(op)];
}

const CpuKernel& GetKernel(OpKind op) {
  return GetKernel(op, *RunningCpuTarget().kernels);
}

bool Takes(const CpuKernel& kernel, const OpArgs& args) {
  if (kernel.supports != nullptr) return kernel.supports(args);
  return args.count() == 0 || IsComputedFloat(args.type(0).dtype);
}

const CpuKernel& KernelOf(const Graph& graph, const Node& node,
                          const KernelTable& table) {
  return RunsWidened(graph, node, table) ? *table.widened
                                         : GetKernel(node.op, table);
}

const CpuKernel& KernelOf(const Graph& graph, const Node& node) {
  return KernelOf(graph, node, *RunningCpuTarget().kernels);
}

Status Supports(const Graph& graph, const Node& node) {
  const KernelTable& table = *RunningCpuTarget().kernels;
  const CpuKernel& kernel = GetKernel(node.op, table);
  if (kernel.run == nullptr && GetOpDef(node.op).is_view()) return {};
  for (const auto& body : BodiesOf(node)) {
    for (const Node& inner : body->nodes()) {
      STOWAGE_RETURN_IF_ERROR(Supports(*body, inner));
    }
  }
  if (!BodiesOf(node).empty()) return {};
  const std::string result =
      node.results.empty() ? "" : graph.value(node.results[0]).name;
  if (kernel.run == nullptr && kernel.run_among_ranks == nullptr) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[cpu] ", OpName(node.op), " of ", Quoted(result),
                        " has no kernel; a graph that holds it can be planned, "
                        "not run")};
  }
  OpArgsStorage storage;
  const OpArgs args = MakeOpArgs(graph, node, &storage);
  if (Takes(kernel, args) || RunsWidened(graph, node, table)) return {};
  std::string types;
  for (int i = 0; i < args.count(); ++i) {
    types += StrCat(i == 0 ? "" : ", ", args.Describe(i));
  }
  return Error{ErrorCode::kUnsupported,
               StrCat("[cpu] ", OpName(node.op), " of ", Quoted(result),
                      " is not computed in this element type: ", types,
                      "; cast to f32 or f64 first")};
}

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
