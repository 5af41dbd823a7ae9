#include "autodiff/backward.h"

#include <optional>
#include <unordered_set>

#include "autodiff/sweep.h"
#include "base/strings.h"
#include "ir/builder.h"
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

// The leaves to differentiate by, in the order asked for.
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

// A model may write its states, and what it makes itself; its params are for the
// update.
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

// `graph` without the leaves that nothing reads, as a finished graph.
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

// The nodes of the backward graph that `wrt` need, in `g`, whose cotangents are kept.
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

}  // namespace stowage
