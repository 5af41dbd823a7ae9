#include "runtime/weight_values.h"

#include "base/index.h"

namespace stowage {

std::vector<ValueId> WeightValues(const Graph& graph) {
  std::vector<bool> is_of_model(Index(graph.num_values()), false);
  for (const Node& node : graph.nodes()) {
    if (node.phase != Phase::kForward) continue;
    for (const ValueId input : node.inputs) is_of_model[Index(input)] = true;
  }
  std::vector<ValueId> values = graph.Leaves(Role::kParam);
  for (const ValueId id : graph.Leaves(Role::kState)) {
    if (is_of_model[Index(id)]) values.push_back(id);
  }
  return values;
}

}  // namespace stowage
