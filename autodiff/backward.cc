#include "autodiff/backward.h"

#include <map>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autodiff/vjp.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph_copy.h"
#include "ir/op_def.h"

namespace stowage {
namespace {

template <typename... Args>
Error Fail(ErrorCode code, const Args&... args) {
  return Error{code, StrCat("[autodiff] ", args...)};
}

Result<ValueId> FindLoss(const Graph& forward, std::string_view name) {
  const std::optional<ValueId> loss = forward.Find(name);
  if (!loss) {
    return Fail(ErrorCode::kNotFound, "graph ", Quoted(forward.name()),
                " has no value ", Quoted(name),
                "; the loss is named as a value or as an output");
  }
  const TensorType& type = forward.value(*loss).type;
  if (type.shape.rank() != 0 || !IsFloat(type.dtype)) {
    return Fail(ErrorCode::kInvalidArgument, "the loss ", Quoted(name), " is ",
                type.ToString(),
                "; expected a float scalar, such as a mean of it");
  }
  return *loss;
}

// The leaves to differentiate by, in the order of `names`.
Result<std::vector<ValueId>> FindWrt(const Graph& forward,
                                     const std::vector<std::string>& names) {
  std::vector<ValueId> wrt;
  if (names.empty()) {
    for (const ValueId id : forward.Leaves(Role::kParam)) {
      if (IsFloat(forward.value(id).type.dtype)) wrt.push_back(id);
    }
    if (!wrt.empty()) return wrt;
    return Fail(ErrorCode::kInvalidArgument, "graph ", Quoted(forward.name()),
                " has no float params; name inputs to differentiate by");
  }
  std::unordered_set<ValueId> seen;
  for (const std::string& name : names) {
    const std::optional<ValueId> id = forward.Find(name);
    if (!id) {
      return Fail(ErrorCode::kNotFound, "graph ", Quoted(forward.name()),
                  " has no param or input ", Quoted(name),
                  " to differentiate by");
    }
    const ValueInfo& info = forward.value(*id);
    if (info.role != Role::kParam && info.role != Role::kInput) {
      return Fail(ErrorCode::kInvalidArgument, "cannot differentiate by ",
                  Quoted(name), ", whose role is ", RoleName(info.role),
                  "; expected a param or an input");
    }
    if (!IsFloat(info.type.dtype)) {
      return Fail(ErrorCode::kInvalidArgument, "cannot differentiate by ",
                  Quoted(name), ", which is ", info.type.ToString(),
                  "; expected a float type");
    }
    if (!seen.insert(*id).second) {
      return Fail(ErrorCode::kInvalidArgument, Quoted(name),
                  " is named twice among those to differentiate by");
    }
    wrt.push_back(*id);
  }
  return wrt;
}

// A model may write its states and its own values, but only the update writes params.
Status RefuseUpdatesOfParams(const Graph& forward) {
  for (const Node& node : forward.nodes()) {
    for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
      const ValueInfo& target =
          forward.value(node.inputs[static_cast<size_t>(r)]);
      if (target.role != Role::kParam) continue;
      return Fail(ErrorCode::kInvalidArgument, "graph ", Quoted(forward.name()),
                  " overwrites the param ", Quoted(target.name), " by a ",
                  OpName(node.op),
                  "; differentiate the graph without updates, or make what it "
                  "writes a state");
    }
  }
  return {};
}

// `graph` without unread leaves, finished.
Result<Graph> WithoutUnreadLeaves(const Graph& graph) {
  std::vector<bool> is_read(static_cast<size_t>(graph.num_values()), false);
  const auto mark = [&](ValueId id) {
    is_read[static_cast<size_t>(id)] = true;
  };
  for (const Node& node : graph.nodes()) {
    for (const ValueId input : node.inputs) mark(input);
  }
  for (const GraphOutput& output : graph.outputs()) mark(output.value);
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (graph.value(id).is_leaf() && is_read[static_cast<size_t>(id)]) {
      copy.DeclareLeaf(id);
    }
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) copy.CopyNode(id);
  for (const GraphOutput& output : graph.outputs()) {
    g.Output(output.name, copy[output.value]);
  }
  return g.Finish();
}

// Emits into `g` the nodes of the backward graph that `wrt` need, and keeps the cotangents.
Status SweepFrom(const Graph& forward, std::string_view loss,
                 const std::vector<ValueId>& wrt, Cotangents* cotangents,
                 GraphBuilder* g) {
  STOWAGE_ASSIGN_OR_RETURN(const ValueId loss_id, FindLoss(forward, loss));
  STOWAGE_RETURN_IF_ERROR(RefuseUpdatesOfParams(forward));
  for (const ValueId id : wrt) cotangents->Want(id);
  WantAllThatDepends(forward, cotangents);
  ForwardValues values(forward, g);
  cotangents->Add(loss_id, g->Input(GradientName(loss),
                                    forward.value(loss_id).type.dtype, {}));
  if (g->error()) return *g->error();
  Sweep(forward, &values, cotangents, g);
  if (g->error()) return *g->error();
  return {};
}

using Names = std::vector<std::string>;

// The loop whose results would include `name` (SavedInLoopName), or kNoNode; `inner` is the
// name of the value in its body.
NodeId LoopOf(const Graph& graph, std::string_view name, std::string* inner) {
  NodeId found = kNoNode;
  size_t longest = 0;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != OpKind::kLoop) continue;
    const std::string suffix =
        SavedInLoopName("", graph.value(node.results[0]).name);
    if (suffix.size() <= longest || !name.ends_with(suffix)) continue;
    found = id;
    longest = suffix.size();
    *inner = std::string(name.substr(0, name.size() - suffix.size()));
  }
  return found;
}

Result<Graph> WithSaved(const Graph& graph, const Names& names);

// Appends loop `id` with further results that stack `saved` of its body.
Status CopyLoop(const Graph& graph, NodeId id, const Names& saved,
                GraphCopy* copy, GraphBuilder* g) {
  const Node& node = graph.node(id);
  const std::string& loop = graph.value(node.results[0]).name;
  STOWAGE_ASSIGN_OR_RETURN(const Graph body,
                           WithSaved(*BodiesOf(node).front(), saved));
  std::vector<ValueId> outputs;
  for (const GraphOutput& output : body.outputs()) {
    outputs.push_back(output.value);
  }
  Names names;
  for (const ValueId result : node.results) {
    names.push_back(graph.value(result).name);
  }
  for (const std::string& value : saved) {
    const auto found = body.Find(value);
    if (!found) continue;  // the linker reports it
    outputs.push_back(*found);
    names.push_back(SavedInLoopName(value, loop));
  }
  STOWAGE_ASSIGN_OR_RETURN(Graph saving,
                           MakeBody(body, LeavesOf(body), outputs));
  Attrs attrs = node.attrs;
  attrs.Set("bodies",
            SubGraphs{std::make_shared<const Graph>(std::move(saving))});
  std::vector<Value> inputs;
  for (const ValueId input : node.inputs) inputs.push_back((*copy)[input]);
  copy->SetOrigin(id);
  const std::vector<Value> results =
      g->EmitNamed(node.op, inputs, attrs, names);
  if (g->error()) return *g->error();
  for (size_t r = 0; r < node.results.size(); ++r) {
    const ValueInfo& info = graph.value(node.results[r]);
    g->SetRole(results[r],
               info.role == Role::kOutput ? Role::kActivation : info.role);
    copy->Map(node.results[r], results[r]);
  }
  return {};
}

Result<Graph> WithSaved(const Graph& graph, const Names& names) {
  std::map<NodeId, Names> saved;  // by loop
  for (const std::string& name : names) {
    std::string inner;
    if (graph.Find(name)) continue;
    const NodeId loop = LoopOf(graph, name, &inner);
    if (loop != kNoNode) saved[loop].push_back(inner);
  }
  if (saved.empty()) return graph;
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const auto more = saved.find(id);
    if (more == saved.end()) {
      copy.CopyNode(id);
    } else {
      STOWAGE_RETURN_IF_ERROR(CopyLoop(graph, id, more->second, &copy, &g));
    }
  }
  copy.DeclareOutputs();
  return g.Finish();
}

}  // namespace

Result<std::vector<std::string>> FindUnreachedParams(const Graph& forward,
                                                     std::string_view loss) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<ValueId> wrt,
                           FindWrt(forward, {}));
  Cotangents cotangents(forward);
  GraphBuilder g(forward.name());
  STOWAGE_RETURN_IF_ERROR(SweepFrom(forward, loss, wrt, &cotangents, &g));
  std::vector<std::string> names;
  for (const ValueId id : wrt) {
    if (!cotangents.Find(id)) names.push_back(forward.value(id).name);
  }
  return names;
}

Result<Graph> BuildBackward(const Graph& forward, std::string_view loss,
                            const BackwardOptions& options) {
  STOWAGE_RETURN_IF_ERROR(FindLoss(forward, loss));
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<ValueId> wrt,
                           FindWrt(forward, options.wrt));
  Cotangents cotangents(forward);
  GraphBuilder g(StrCat(forward.name(), ".backward"));
  STOWAGE_RETURN_IF_ERROR(SweepFrom(forward, loss, wrt, &cotangents, &g));

  for (const ValueId id : wrt) {
    const ValueInfo& info = forward.value(id);
    const std::optional<Value> gradient = cotangents.Find(id);
    if (!gradient) {
      return Fail(ErrorCode::kInvalidArgument, Quoted(info.name),
                  " does not reach the loss ", Quoted(loss),
                  " through ops with a gradient; use it there, or leave it "
                  "out of those to differentiate by");
    }
    NameGradient(info, *gradient, &g);
    g.Output(GradientName(info.name), *gradient);
  }
  if (g.error()) return *g.error();
  return WithoutUnreadLeaves(g.graph());
}

std::string SavedInLoopName(std::string_view value, std::string_view loop) {
  return StrCat(value, "@", loop);
}

Result<Graph> SaveInLoops(const Graph& forward, const Graph& backward) {
  Names names;
  for (const ValueId id : backward.Leaves(Role::kSaved)) {
    names.push_back(backward.value(id).name);
  }
  return WithSaved(forward, names);
}

}  // namespace stowage
