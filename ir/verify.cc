#include "ir/verify.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage {
namespace {

bool IsLeafRole(Role role) {
  return role == Role::kParam || role == Role::kInput || role == Role::kSaved ||
         role == Role::kState || role == Role::kCache;
}

// `node 3 (relu "h")`, for nodes with wrong results too.
std::string NodeLabel(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::string label = StrCat("node ", id, " (", OpName(node.op));
  if (!node.results.empty() && node.results[0] >= 0 &&
      node.results[0] < graph.num_values()) {
    label += StrCat(" ", Quoted(graph.value(node.results[0]).name));
  }
  return label + ")";
}

std::string_view MemoryName(bool on_host) {
  return on_host ? "the host's memory" : "the arena";
}

Status VerifyValueNames(const Graph& graph) {
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const std::string& name = graph.value(id).name;
    if (name.empty())
      return InvalidArgumentError("[ir] value ", id, " has no name");
    const std::optional<ValueId> found = graph.Find(name);
    if (!found) {
      return InvalidArgumentError("[ir] value ", id, " ", Quoted(name),
                                  " is not found by its name");
    }
    if (*found != id) {
      return InvalidArgumentError("[ir] the name ", Quoted(name),
                                  " means value ", id, " and value ", *found,
                                  "; names must be unique");
    }
  }
  return {};
}

Status VerifyLeaf(const ValueInfo& leaf) {
  if (!IsLeafRole(leaf.role)) {
    return InvalidArgumentError(
        "[ir] leaf ", Quoted(leaf.name), " has role ", RoleName(leaf.role),
        "; a leaf is a param, input, saved, state or cache");
  }
  const Shape& shape = leaf.type.shape;
  if (shape.rank() > kMaxRank) {
    return InvalidArgumentError("[ir] leaf ", Quoted(leaf.name), " has rank ",
                                shape.rank(), "; at most ", kMaxRank,
                                " is supported");
  }
  const std::optional<int64_t> elements = shape.CheckedNumElements();
  if (!elements || !CheckedMul(*elements, SizeOf(leaf.type.dtype))) {
    return InvalidArgumentError(
        "[ir] leaf ", Quoted(leaf.name), " has shape ", shape.ToString(),
        "; every dimension must be at least 1 and the bytes must fit "
        "64 bits");
  }
  if (leaf.on_host && leaf.role != Role::kParam && leaf.role != Role::kState) {
    return InvalidArgumentError(
        "[ir] leaf ", Quoted(leaf.name), " has role ", RoleName(leaf.role),
        " and lies in the host's memory; of leaves, only params and states "
        "may");
  }
  if (!std::isfinite(leaf.init.scale) || leaf.init.scale < 0) {
    return InvalidArgumentError("[ir] the init of ", Quoted(leaf.name),
                                " has scale ", leaf.init.scale,
                                "; expected a finite number of at least 0");
  }
  const bool is_random = leaf.init.kind != Init::Kind::kZeros &&
                         leaf.init.kind != Init::Kind::kOnes &&
                         leaf.init.kind != Init::Kind::kConstant;
  if (is_random && !IsFloat(leaf.type.dtype)) {
    return InvalidArgumentError(
        "[ir] the init of ", Quoted(leaf.name), " is random, its type ",
        leaf.type.ToString(),
        "; only floats start random, others at zeros, ones or a "
        "constant");
  }
  if (leaf.init.kind == Init::Kind::kOrthogonal && shape.rank() < 2) {
    return InvalidArgumentError(
        "[ir] the init of ", Quoted(leaf.name), " is orthogonal, its type ",
        leaf.type.ToString(), "; expected at least two dimensions");
  }
  return {};
}

// Operands come earlier, results point back, types follow from the op's rule.
// `next` is the first value that no earlier node or leaf accounts for.
Status VerifyNode(const Graph& graph, NodeId id, ValueId* next) {
  const Node& node = graph.node(id);
  const OpDef& def = GetOpDef(node.op);
  if (node.results.empty()) {
    return InvalidArgumentError("[ir] ", NodeLabel(graph, id),
                                " has no results");
  }
  while (*next < graph.num_values() && graph.value(*next).is_leaf()) ++*next;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (input < 0 || input >= graph.num_values()) {
      return InvalidArgumentError("[ir] ", NodeLabel(graph, id),
                                  " reads value ", input, "; the graph has ",
                                  graph.num_values(), " values");
    }
    const ValueInfo& info = graph.value(input);
    if (info.producer >= id) {
      return InvalidArgumentError("[ir] ", NodeLabel(graph, id), " reads ",
                                  Quoted(info.name), " before node ",
                                  info.producer, " makes it");
    }
  }
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueId result = node.results[r];
    if (result != *next) {
      return InvalidArgumentError(
          "[ir] ", NodeLabel(graph, id), " has value ", result, " as result ",
          r, "; values stand in the order of their producers, here comes ",
          *next);
    }
    const ValueInfo& info = graph.value(result);
    if (info.producer != id || info.result != static_cast<int>(r)) {
      return InvalidArgumentError("[ir] ", Quoted(info.name),
                                  " is said to be result ", info.result,
                                  " of node ", info.producer, "; it is result ",
                                  r, " of ", NodeLabel(graph, id));
    }
    ++*next;
  }
  if (def.num_inputs != kAnyNumber &&
      def.num_inputs != static_cast<int>(node.inputs.size())) {
    return InvalidArgumentError("[ir] ", NodeLabel(graph, id), " has ",
                                node.inputs.size(), " operands; ",
                                OpName(node.op), " takes ", def.num_inputs);
  }
  if (const Status placed = VerifyMemory(graph, node); !placed.ok()) {
    return InvalidArgumentError("[ir] ", NodeLabel(graph, id), " ",
                                placed.error().message);
  }
  OpArgsStorage storage;
  const Result<std::vector<TensorType>> types =
      def.infer(MakeOpArgs(graph, node, &storage));
  if (!types.ok()) {
    return InvalidArgumentError("[ir] ", NodeLabel(graph, id), ": ",
                                types.error().message);
  }
  if (types->size() != node.results.size()) {
    return InvalidArgumentError("[ir] ", NodeLabel(graph, id), " has ",
                                node.results.size(),
                                " results; its operands give ", types->size());
  }
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueInfo& info = graph.value(node.results[r]);
    if (info.type != (*types)[r]) {
      return InvalidArgumentError(
          "[ir] ", Quoted(info.name), " is said to be ", info.type.ToString(),
          "; ", NodeLabel(graph, id), " makes it ", (*types)[r].ToString());
    }
    if (info.on_host != def.results_on_host) {
      return InvalidArgumentError(
          "[ir] ", Quoted(info.name), " is said to lie in ",
          MemoryName(info.on_host), "; ", NodeLabel(graph, id), " makes it in ",
          MemoryName(def.results_on_host));
    }
    if (static_cast<int>(r) < def.updates) {
      // Persistent values keep their role; a fill or a reloaded value may become an output.
      const ValueInfo& old = graph.value(node.inputs[r]);
      const bool is_kept = IsLeafRole(old.role) || IsLeafRole(info.role);
      if (is_kept && info.role != old.role) {
        return InvalidArgumentError(
            "[ir] ", Quoted(info.name), " has role ", RoleName(info.role),
            "; it is the new content of ", Quoted(old.name), ", whose role is ",
            RoleName(old.role));
      }
    } else if (IsLeafRole(info.role)) {
      return InvalidArgumentError(
          "[ir] ", Quoted(info.name), " has role ", RoleName(info.role),
          " and is a result of ", NodeLabel(graph, id),
          "; only leaves and their updates have that role");
    } else if (info.role == Role::kConstant && node.op != OpKind::kConstant) {
      return InvalidArgumentError(
          "[ir] ", Quoted(info.name), " has role constant and is a result of ",
          NodeLabel(graph, id), "; only results of constant have it");
    }
  }
  return {};
}

// Error: two outputs of a body, or an output and a leaf, share bytes.
Status VerifyBodies(const Graph& graph, NodeId id) {
  for (const auto& body : BodiesOf(graph.node(id))) {
    const auto fail = [&](ValueId value, std::string_view what) {
      return InvalidArgumentError("[ir] body ", Quoted(body->name()), " of ",
                                  NodeLabel(graph, id), " has ",
                                  Quoted(body->value(value).name), " ", what);
    };
    const Layouts layouts = ComputeLayouts(*body);
    std::unordered_set<ValueId> seen;
    for (const GraphOutput& output : body->outputs()) {
      const ValueInfo& info = body->value(output.value);
      if (info.is_leaf() || layouts[Index(output.value)].root != output.value) {
        return fail(output.value,
                    "as an output, which owns no bytes; output a copy");
      }
      if (!seen.insert(output.value).second) {
        return fail(output.value, "as two outputs; output a copy");
      }
    }
  }
  return {};
}

Status VerifyOutputs(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const auto& [name, value] = graph.outputs()[i];
    if (value < 0 || value >= graph.num_values()) {
      return InvalidArgumentError("[ir] output ", Quoted(name), " is value ",
                                  value, "; the graph has ", graph.num_values(),
                                  " values");
    }
    if (name.empty())
      return InvalidArgumentError("[ir] output ", i, " has no name");
    if (graph.value(value).on_host) {
      return InvalidArgumentError(
          "[ir] output ", Quoted(name), " is ", Quoted(graph.value(value).name),
          ", which lies in the host's memory; reload it, and make that "
          "the output");
    }
    if (!names.insert(name).second) {
      return InvalidArgumentError("[ir] two outputs are called ", Quoted(name));
    }
    const std::optional<ValueId> found = graph.Find(name);
    if (found != value) {
      return InvalidArgumentError(
          "[ir] the name of output ", Quoted(name), " of value ", value,
          " means ", found ? StrCat("value ", *found) : "nothing",
          "; an output's name is its value's or its own");
    }
  }
  return {};
}

// Verifies that params, states and reloaded values are updated in place and that no node reads
// an old content.
class UpdateVerifier {
 public:
  explicit UpdateVerifier(const Graph& graph)
      : graph_(graph),
        roots_(static_cast<size_t>(graph.num_values())),
        updater_(static_cast<size_t>(graph.num_values()), kNoNode),
        updates_(static_cast<size_t>(graph.num_values()), 0),
        version_(static_cast<size_t>(graph.num_values()), 0) {
    std::iota(roots_.begin(), roots_.end(), 0);
    for (const Node& node : graph.nodes()) {
      const OpDef& def = GetOpDef(node.op);
      for (size_t r = 0; r < node.results.size(); ++r) {
        const bool is_update = static_cast<int>(r) < def.updates;
        if (!is_update && !def.is_view()) continue;
        roots_[Index(node.results[r])] =
            roots_[Index(node.inputs[is_update ? r : 0])];
      }
    }
  }

  Status Verify() {
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      const Node& node = graph_.node(id);
      const OpDef& def = GetOpDef(node.op);
      for (const ValueId input : node.inputs) {
        if (IsGone(input)) return ReadsGone(NodeLabel(graph_, id), input);
      }
      for (int r = 0; r < def.updates; ++r) {
        STOWAGE_RETURN_IF_ERROR(Update(id, static_cast<size_t>(r)));
      }
      // The other operands of an update must not share the bytes that it writes.
      for (size_t i = static_cast<size_t>(def.updates);
           def.updates > 0 && i < node.inputs.size(); ++i) {
        const ValueId input = node.inputs[i];
        if (IsGone(input)) return ReadsGone(NodeLabel(graph_, id), input);
      }
      if (def.is_view()) {
        for (const ValueId result : node.results) {
          version_[Index(result)] = version_[Index(node.inputs[0])];
        }
      }
    }
    for (const GraphOutput& output : graph_.outputs()) {
      if (IsGone(output.value)) {
        return ReadsGone(StrCat("output ", Quoted(output.name)), output.value);
      }
    }
    return {};
  }

 private:
  // Whether `value` is the old content of an updated value, or a view of it.
  bool IsGone(ValueId value) const {
    return updates_[Index(roots_[Index(value)])] != version_[Index(value)];
  }

  Error ReadsGone(const std::string& reader, ValueId value) const {
    const ValueId root = roots_[Index(value)];
    return InvalidArgumentError(
        "[ir] ", reader, " reads ", Quoted(graph_.value(value).name),
        ", an old content of ", Quoted(graph_.value(root).name), ", which ",
        NodeLabel(graph_, updater_[Index(root)]),
        " overwrites; read the update's result, or read earlier");
  }

  // A description of a value that cannot be updated.
  std::string Kind(ValueId id) const {
    const ValueInfo& info = graph_.value(id);
    if (info.is_leaf()) return StrCat("a leaf of role ", RoleName(info.role));
    const ValueId root = roots_[Index(id)];
    if (root == id) return StrCat("a result of node ", info.producer);
    const bool is_view = GetOpDef(graph_.node(info.producer).op).is_view();
    return StrCat(is_view ? "a view of " : "the new content of ",
                  Quoted(graph_.value(root).name));
  }

  // Whether a value has all the bytes of a root that can be updated: a param, a state, a cache,
  // a reloaded value, a fill, an own_block, or their new content.
  bool MayBeUpdated(ValueId id) const {
    const ValueInfo& info = graph_.value(id);
    if (info.is_leaf()) {
      return info.role == Role::kParam || info.role == Role::kState ||
             info.role == Role::kCache;
    }
    const Node& maker = graph_.node(info.producer);
    return maker.op == OpKind::kReload || maker.op == OpKind::kFill ||
           maker.op == OpKind::kOwnBlock ||
           info.result < GetOpDef(maker.op).updates;
  }

  Status Update(NodeId id, size_t r) {
    const ValueId target = graph_.node(id).inputs[r];
    const ValueInfo& info = graph_.value(target);
    if (!MayBeUpdated(target)) {
      return InvalidArgumentError(
          "[ir] ", NodeLabel(graph_, id), " writes in place of ",
          Quoted(info.name), ", which is ", Kind(target),
          "; only a whole param, state, cache, fill, own block or "
          "reloaded value can be updated, or its new content");
    }
    const ValueId root = roots_[Index(target)];
    if (updater_[Index(root)] == id) {
      return InvalidArgumentError("[ir] ", NodeLabel(graph_, id), " updates ",
                                  Quoted(info.name), " twice");
    }
    updater_[Index(root)] = id;
    version_[Index(graph_.node(id).results[r])] = ++updates_[Index(root)];
    return {};
  }

  const Graph& graph_;
  std::vector<ValueId> roots_;  // of views and updates: in whose bytes they are
  std::vector<NodeId> updater_;   // of each root: the last so far
  std::vector<int32_t> updates_;  // of each root: how many so far
  std::vector<int32_t> version_;  // of each value: how many it has seen
};

}  // namespace

Status VerifyMemory(const Graph& graph, const Node& node) {
  const OpDef& def = GetOpDef(node.op);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueInfo& input = graph.value(node.inputs[i]);
    const bool wants_host = def.takes_from_host(i);
    if (input.on_host == wants_host) continue;
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("reads ", Quoted(input.name), " in ", MemoryName(input.on_host),
               "; expected one in ", MemoryName(wants_host),
               input.on_host ? ": reload it first" : "")};
  }
  return {};
}

Status Verify(const Graph& graph) {
  STOWAGE_RETURN_IF_ERROR(VerifyNames(graph));
  return VerifyNodes(graph);
}

Status VerifyNames(const Graph& graph) {
  STOWAGE_RETURN_IF_ERROR(VerifyValueNames(graph));
  return VerifyOutputs(graph);
}

Status VerifyNodes(const Graph& graph) {
  for (const ValueInfo& value : graph.values()) {
    if (value.is_leaf()) {
      STOWAGE_RETURN_IF_ERROR(VerifyLeaf(value));
    } else if (value.producer < 0 || value.producer >= graph.num_nodes()) {
      return InvalidArgumentError(
          "[ir] ", Quoted(value.name), " is said to be a result of node ",
          value.producer, "; the graph has ", graph.num_nodes(), " nodes");
    }
  }
  ValueId next = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    STOWAGE_RETURN_IF_ERROR(VerifyNode(graph, id, &next));
    STOWAGE_RETURN_IF_ERROR(VerifyBodies(graph, id));
  }
  for (; next < graph.num_values(); ++next) {
    const ValueInfo& value = graph.value(next);
    if (!value.is_leaf()) {
      return InvalidArgumentError(
          "[ir] ", Quoted(value.name), " is said to be result ", value.result,
          " of ", NodeLabel(graph, value.producer), ", which does not have it");
    }
  }
  if (!IsLegal(graph)) {
    return InvalidArgumentError(
        "[ir] graph ", Quoted(graph.name()),
        " has an operand whose strides its reader cannot take; "
        "Legalize inserts the copy it needs");
  }
  return UpdateVerifier(graph).Verify();
}

}  // namespace stowage
