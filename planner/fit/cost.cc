#include "planner/fit/cost.h"

#include "ir/layout.h"
#include "planner/fit/offload/offload.h"

namespace stowage::fit {

std::vector<double> FlopsOfNodes(const Graph& graph) {
  std::vector<double> flops;
  for (const Node& node : graph.nodes()) {
    flops.push_back(NodeFlops(graph, node));
  }
  return flops;
}

std::vector<double> CostsOfNodes(const Graph& graph, const CostFn& cost,
                                 double per_byte) {
  std::vector<double> costs = cost ? cost(graph) : FlopsOfNodes(graph);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    costs[static_cast<size_t>(id)] +=
        per_byte * static_cast<double>(BytesCopied(graph, graph.node(id)));
  }
  return costs;
}

}  // namespace stowage::fit
