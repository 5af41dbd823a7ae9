#include "compile/compile.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "compile/constants.h"
#include "compile/file_writer.h"
#include "compile/interface.h"
#include "compile/kernel.h"
#include "compile/ops.h"
#include "compile/refusals.h"
#include "compile/widened.h"
#include "ir/fused.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage {

namespace {

Bytes WorkspaceInC(const Graph& graph, const Node& node) {
  if (compile::OpInC(node.op).write == nullptr) return 0;
  return compile::ScratchOf(graph, node) *
         SizeOf(compile::Kernel(graph, node, nullptr).real());
}

Status CheckScratch(const Graph& graph, const Plan& plan) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Bytes needed = WorkspaceInC(graph, graph.node(id));
    if (needed == 0) continue;
    const int32_t buffer = plan.workspace_of[static_cast<size_t>(id)];
    const Bytes planned =
        buffer < 0 ? 0 : plan.buffers[static_cast<size_t>(buffer)].size;
    if (planned >= needed) continue;
    return InvalidArgumentError(
        "[compile] the plan has ", planned, " bytes of scratch memory for ",
        graph.Describe(id), ", whose kernel in C needs ", needed,
        "; plan with NeedsOfC()");
  }
  return {};
}

Status CheckContents(const CProgram& step,
                     const std::map<std::string, std::string>& contents) {
  const Graph& graph = step.graph;
  const compile::Constants constants(graph, step.plan);
  for (const auto& [param, array] : constants.names()) {
    if (contents.contains(param)) continue;
    return InvalidArgumentError("[compile] the plan has param ", Quoted(param),
                                " outside of the arena, and no contents are "
                                "given for it; give its bytes");
  }
  for (const auto& [name, bytes] : contents) {
    const std::optional<ValueId> id = graph.Find(name);
    const Role role = id ? graph.value(*id).role : Role::kInput;
    if (role != Role::kParam && role != Role::kState) {
      return InvalidArgumentError("[compile] contents are given for ",
                                  Quoted(name),
                                  ", which is no param and no state");
    }
    const TensorType& type = graph.value(*id).type;
    if (static_cast<Bytes>(bytes.size()) == type.bytes()) continue;
    return InvalidArgumentError("[compile] the contents of ", Quoted(name),
                                " are ", bytes.size(), " bytes; ",
                                type.ToString(), " has ", type.bytes());
  }
  return {};
}

Status CheckCanBeWritten(const Graph& graph, const CompileOptions& options) {
  const std::vector<std::string> refused =
      compile::RefusalsOf(graph, options.contents);
  if (refused.empty()) return {};
  std::string list;
  for (const std::string& each : refused) {
    list += (list.empty() ? "" : ", ") + each;
  }
  return InvalidArgumentError("[compile] not available in C: ", list,
                              "; docs/guides/embedded.md lists what is");
}

// That a program beside the step finds params and states where the step has them.
Status CheckShares(const CProgram& step, const CProgram& program) {
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : program.graph.Leaves(role)) {
      const ValueInfo& value = program.graph.value(id);
      const std::optional<ValueId> own = step.graph.Find(value.name);
      const auto address = [](const Plan& plan, ValueId of) {
        const PlannedBuffer& buffer = plan.buffers[static_cast<size_t>(
            plan.buffer_of[static_cast<size_t>(of)])];
        return std::pair(buffer.region, plan.AddressOf(buffer));
      };
      if (own && step.graph.value(*own).type == value.type &&
          address(step.plan, *own) == address(program.plan, id)) {
        continue;
      }
      return InvalidArgumentError("[compile] ", Quoted(value.name), " of ",
                                  Quoted(program.name),
                                  own ? " is at another address than the step's"
                                      : " is no param of the step",
                                  "; plan both with one WeightLayout");
    }
  }
  return {};
}

}  // namespace

DeviceNeeds NeedsOfC() {
  DeviceNeeds needs;
  needs.workspace = WorkspaceInC;
  needs.fusions.elementwise = MayBeFused;
  needs.fusions.products = true;
  needs.fusions.epilogues = true;
  needs.device = "C";
  return needs;
}

std::set<std::string> FrozenParams(const Graph& step,
                                   const std::set<std::string>& names) {
  std::set<std::string> frozen;
  for (const ValueId id : step.Leaves(Role::kParam)) {
    if (names.contains(step.value(id).name)) frozen.insert(step.value(id).name);
  }
  const Layouts layouts = ComputeLayouts(step);
  for (const Node& node : step.nodes()) {
    const auto updates = static_cast<size_t>(GetOpDef(node.op).updates);
    for (const ValueId id : std::span(node.inputs).first(updates)) {
      frozen.erase(step.value(layouts[static_cast<size_t>(id)].root).name);
    }
  }
  return frozen;
}

Result<CompiledStep> CompileToC(std::span<const CProgram> programs,
                                const CompileOptions& options) {
  STOWAGE_CHECK(!programs.empty());
  if (!compile::IsIdentifier(options.prefix)) {
    return InvalidArgumentError("[compile] the prefix ", Quoted(options.prefix),
                                " is no C identifier; expected letters, digits "
                                "and _, no digit first");
  }
  for (const CProgram& program : programs) {
    STOWAGE_RETURN_IF_ERROR(CheckPlanIsFor(program.plan, program.graph));
    STOWAGE_RETURN_IF_ERROR(CheckCanBeWritten(program.graph, options));
    STOWAGE_RETURN_IF_ERROR(CheckScratch(program.graph, program.plan));
    STOWAGE_RETURN_IF_ERROR(CheckShares(programs.front(), program));
  }
  STOWAGE_RETURN_IF_ERROR(CheckContents(programs.front(), options.contents));
  return compile::WriteFile(programs, options);
}

Result<CompiledStep> CompileToC(const Graph& graph, const Plan& plan,
                                const CompileOptions& options) {
  const CProgram step{"step", graph, plan};
  return CompileToC(std::span(&step, 1), options);
}

}  // namespace stowage
