#include "planner/fit/collectives.h"

#include <algorithm>

#include "ir/bodies.h"
#include "ir/op_def.h"

namespace stowage::fit {

bool HoldsCollectives(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return GetOpDef(node.op).collective ||
           std::ranges::any_of(BodiesOf(node), [](const auto& body) {
             return HoldsCollectives(*body);
           });
  });
}

}  // namespace stowage::fit
