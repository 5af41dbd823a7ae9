#include "planner/fit/offload/given_states.h"

#include <cstddef>
#include <vector>

#include "base/index.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/uses.h"
#include "planner/fit/offload/offload.h"

namespace stowage::fit {
namespace {

// The last of `users`, of the state `root`, that updates it.
NodeId LastUpdate(const Graph& graph, const Layouts& layouts,
                  std::span<const NodeId> users, ValueId root) {
  NodeId last = kNoNode;
  for (const NodeId id : users) {
    const Node& node = graph.node(id);
    for (size_t r = 0; r < Index(GetOpDef(node.op).updates); ++r) {
      if (layouts[Index(node.inputs[r])].root == root) last = id;
    }
  }
  return last;
}

}  // namespace

Result<Graph> MoveGivenStates(const Graph& graph, const WeightLayout& layout,
                              std::span<NodeId> places) {
  if (layout.host_states().empty()) return graph;
  const Layouts layouts = ComputeLayouts(graph);
  const Uses uses(graph, layouts);
  std::vector<Offloadable> moved;
  for (const ValueId id : graph.Leaves(Role::kState)) {
    const ValueInfo& state = graph.value(id);
    const std::span<const NodeId> users = uses.uses(id);
    if (state.on_host || users.empty() ||
        !layout.host_states().contains(state.name)) {
      continue;
    }
    moved.push_back({.value = id,
                     .bytes = state.type.bytes(),
                     .to = users.front(),
                     .updated = LastUpdate(graph, layouts, users, id)});
  }
  return Offload(graph, moved, places);
}

}  // namespace stowage::fit
