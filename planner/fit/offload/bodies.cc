#include "planner/fit/offload/bodies.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ir/attrs.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "planner/fit/collectives.h"
#include "planner/fit/offload/offload.h"

namespace stowage::fit {
namespace {

bool WaitsIn(const Graph& body) {
  if (HoldsCollectives(body)) return false;
  return !FindOffloadable(body).empty() || WaitsInBodies(body);
}

Result<Graph> OffloadInBody(const Graph& body) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph inside, OffloadInBodies(body));
  return Offload(inside, FindOffloadable(inside));
}

}  // namespace

bool WaitsInBodies(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return std::ranges::any_of(BodiesOf(node),
                               [](const auto& body) { return WaitsIn(*body); });
  });
}

Result<Graph> OffloadInBodies(const Graph& graph) {
  if (!WaitsInBodies(graph)) return graph;
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    Attrs attrs = node.attrs;
    SubGraphs bodies;
    for (const auto& body : BodiesOf(node)) {
      bodies.push_back(body);
      if (!WaitsIn(*body)) continue;
      STOWAGE_ASSIGN_OR_RETURN(Graph moved, OffloadInBody(*body));
      bodies.back() = std::make_shared<const Graph>(std::move(moved));
    }
    if (!bodies.empty()) attrs.Set("bodies", std::move(bodies));
    copy.CopyNode(n, attrs);
  }
  copy.DeclareOutputs();
  return g.Finish();
}

}  // namespace stowage::fit
