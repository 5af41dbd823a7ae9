#include "autodiff/model_states.h"

#include <algorithm>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/op_def.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// What a forward node writes in place that lasts: a state, if any.
const ValueInfo* WrittenState(const Graph& graph, const Node& node) {
  if (node.phase != Phase::kForward) return nullptr;
  for (int r = 0; r < GetOpDef(node.op).updates; ++r) {
    const ValueInfo& written = graph.value(node.inputs[static_cast<size_t>(r)]);
    if (written.role == Role::kState) return &written;
  }
  return nullptr;
}

// `target` moved towards each rank's `x`.
Value MoveToAll(Value target, Value x, Value weight, int64_t ranks) {
  const int64_t elements = x.shape().num_elements();
  const Value all =
      AllGather(Reshape(x, {elements}), ranks, {ranks * elements});
  for (int64_t r = 0; r < ranks; ++r) {
    const Value part = Slice(all, 0, r * elements, (r + 1) * elements);
    target = LerpUpdate(target, Reshape(part, x.shape()), weight);
  }
  return target;
}

}  // namespace

Result<Graph> JoinModelStates(const Graph& step, int64_t ranks) {
  const auto writes = [&](const Node& node) {
    return WrittenState(step, node) != nullptr;
  };
  if (std::ranges::none_of(step.nodes(), writes)) return step;
  GraphBuilder g(step.name());
  GraphCopy copy(step, &g);
  copy.DeclareLeaves();
  for (NodeId id = 0; id < step.num_nodes(); ++id) {
    const Node& node = step.node(id);
    const ValueInfo* const state = WrittenState(step, node);
    if (state == nullptr) {
      copy.CopyNode(id);
      continue;
    }
    if (node.op != OpKind::kLerpUpdate) {
      return Error{
          ErrorCode::kUnsupported,
          StrCat("[ranks] the model writes its state ", Quoted(state->name),
                 " by ", OpName(node.op), ", which ", ranks,
                 " ranks cannot do together; expected lerp_update, or one "
                 "rank")};
    }
    copy.SetOrigin(id);
    const Value moved = MoveToAll(copy[node.inputs[0]], copy[node.inputs[1]],
                                  copy[node.inputs[2]], ranks);
    const std::string& name = step.value(node.results[0]).name;
    if (!g.Find(name)) g.Name(name, moved);
    copy.Map(node.results[0], moved);
  }
  copy.DeclareOutputs();
  return g.Finish();
}

}  // namespace stowage
