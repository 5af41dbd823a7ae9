#include "cpu/kernel.h"

#include <array>

#include "base/strings.h"
#include "cpu/kernels/dispatch.h"
#include "cpu/targets.h"
#include "cpu/widened.h"
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

}  // namespace stowage::cpu
