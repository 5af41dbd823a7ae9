#include "compile/compile.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "compile/file_parts.h"
#include "compile/kernel.h"
#include "compile/ops.h"
#include "ir/bodies.h"
#include "ir/fused.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage {

namespace {

Bytes WorkspaceInC(const Graph& graph, const Node& node, int simd) {
  if (compile::OpInC(node.op).write == nullptr) return 0;
  return compile::ScratchOf(graph, node, simd) *
         SizeOf(compile::Kernel(graph, node, nullptr).real());
}

Status CheckScratch(const Graph& graph, const Plan& plan, int simd) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Bytes needed = WorkspaceInC(graph, graph.node(id), simd);
    if (needed == 0) continue;
    const int32_t buffer = plan.workspace_of[static_cast<size_t>(id)];
    const Bytes planned =
        buffer < 0 ? 0 : plan.buffers[static_cast<size_t>(buffer)].size;
    if (planned >= needed) continue;
    return InvalidArgumentError(
        "[compile] the plan has ", planned, " bytes of scratch memory for ",
        graph.Describe(id), ", whose kernel in C needs ", needed,
        "; plan with NeedsOfC(", simd == 0 ? "" : StrCat(simd), ")");
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

// "" if the node can be written.
std::string Refusal(const Node& node) {
  if (GetOpDef(node.op).is_view() || !BodiesOf(node).empty()) return "";
  const compile::COp op = compile::OpInC(node.op);
  if (op.write == nullptr) return std::string(OpName(node.op));
  return "";
}

class Refusals {
 public:
  explicit Refusals(const std::map<std::string, std::string>& contents)
      : contents_(contents) {}

  void AddGraph(const Graph& graph) {
    for (const ValueInfo& value : graph.values()) {
      const bool starts =
          value.role == Role::kParam || value.role == Role::kState;
      if (contents_.contains(value.name)) continue;
      if (starts && value.init.kind == Init::Kind::kOrthogonal) {
        Add("orthogonal initial values", value.name);
      }
    }
    for (const Node& node : graph.nodes()) {
      const std::string refusal = Refusal(node);
      if (!refusal.empty()) {
        Add(refusal,
            node.results.empty() ? "" : graph.value(node.results.front()).name);
      }
      for (const auto& body : BodiesOf(node)) AddGraph(*body);
    }
  }

  std::vector<std::string> Texts() const {
    std::vector<std::string> texts;
    for (const Kind& kind : kinds_) {
      texts.push_back(StrCat(kind.text, " (", kind.count,
                             kind.count == 1 ? ": " : ", the first is ",
                             Quoted(kind.first), ")"));
    }
    return texts;
  }

 private:
  struct Kind {
    std::string text, first;
    int count = 0;
  };

  void Add(const std::string& text, const std::string& name) {
    auto at = std::ranges::find(kinds_, text, &Kind::text);
    if (at == kinds_.end()) at = kinds_.insert(at, {text, name});
    ++at->count;
  }

  const std::map<std::string, std::string>& contents_;
  std::vector<Kind> kinds_;
};

// One text for each kind of op or initial value that cannot be written in C, in the order of
// the graph and its bodies: "lstm (2, the first is \"h\")".
std::vector<std::string> RefusalsOf(
    const Graph& graph, const std::map<std::string, std::string>& contents) {
  Refusals refusals(contents);
  refusals.AddGraph(graph);
  return refusals.Texts();
}

Status CheckCanBeWritten(const Graph& graph, const CompileOptions& options) {
  const std::vector<std::string> refused = RefusalsOf(graph, options.contents);
  if (refused.empty()) return {};
  std::string list;
  for (const std::string& each : refused) {
    list += (list.empty() ? "" : ", ") + each;
  }
  return InvalidArgumentError("[compile] not available in C: ", list,
                              "; docs/guides/embedded.md lists what is");
}

// Error: a param or state of `program` is not at the step's address in the arena.
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

Status CheckPlacement(std::span<const CProgram> programs,
                      const Placement& placement) {
  std::set<std::string> names;
  for (const MemoryRegion& region : placement.regions) {
    if (!compile::IsIdentifier(region.name)) {
      return InvalidArgumentError("[compile] the region ", Quoted(region.name),
                                  " is no C identifier; expected letters, "
                                  "digits and _, no digit first");
    }
    if (!names.insert(compile::Upper(region.name)).second) {
      return InvalidArgumentError(
          "[compile] more than one region is called ", Quoted(region.name),
          " in upper case, as in macros; each needs a name of its own");
    }
  }
  std::vector<ProgramPlan> planned;
  for (const CProgram& program : programs) {
    planned.push_back({program.graph, program.plan});
  }
  const std::vector<std::string> violations =
      ValidatePlacement(planned, placement, 1);
  if (violations.empty()) return {};
  return InvalidArgumentError(
      "[compile] the placement cannot be used: ", violations.front(),
      "; place these programs with PlaceInRegions");
}

}  // namespace

DeviceNeeds NeedsOfC(int simd) {
  DeviceNeeds needs;
  needs.workspace = [simd](const Graph& graph, const Node& node) {
    return WorkspaceInC(graph, node, simd);
  };
  needs.fusions.elementwise = MayBeFused;
  needs.fusions.products = true;
  needs.fusions.epilogues = true;
  needs.device = simd == 0 ? "C" : StrCat("C with vectors of ", simd, " bytes");
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
  if (options.simd != 0 && options.simd != 16 && options.simd != 32 &&
      options.simd != 64) {
    return InvalidArgumentError("[compile] the vectors have ", options.simd,
                                " bytes; expected 16, 32 or 64");
  }
  for (const CProgram& program : programs) {
    STOWAGE_RETURN_IF_ERROR(CheckPlanIsFor(program.plan, program.graph));
    STOWAGE_RETURN_IF_ERROR(CheckCanBeWritten(program.graph, options));
    STOWAGE_RETURN_IF_ERROR(
        CheckScratch(program.graph, program.plan, options.simd));
    if (!options.placement) {
      STOWAGE_RETURN_IF_ERROR(CheckShares(programs.front(), program));
    }
  }
  if (options.placement) {
    STOWAGE_RETURN_IF_ERROR(CheckPlacement(programs, *options.placement));
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
