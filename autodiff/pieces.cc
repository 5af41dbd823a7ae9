#include "autodiff/pieces.h"

#include <string>
#include <utility>

namespace stowage {

// Finishing may put copies between nodes: what begins where is found by name.
Result<MicroBatchedStep> FinishPieces(GraphBuilder& g,
                                      const std::vector<NodeId>& begins,
                                      std::vector<int64_t> counts) {
  if (g.error()) return *g.error();
  std::vector<std::string> names;
  for (const NodeId id : begins) {
    const Graph& graph = g.graph();
    names.push_back(graph.value(graph.node(id).results[0]).name);
  }
  MicroBatchedStep step{.counts = std::move(counts)};
  STOWAGE_ASSIGN_OR_RETURN(step.graph, g.Finish());
  for (const std::string& name : names) {
    const ValueId first = *step.graph.Find(name);
    step.begins.push_back(step.graph.value(first).producer);
  }
  step.begins.front() = 0;
  return step;
}

Status RewriteStep(MicroBatchedStep* step,
                   const std::function<Result<Graph>(const Graph&)>& rewrite) {
  STOWAGE_ASSIGN_OR_RETURN(Graph rewritten, rewrite(step->graph));
  for (NodeId& begin : step->begins) {
    for (NodeId id = begin; id < step->graph.num_nodes(); ++id) {
      const ValueId result = step->graph.node(id).results[0];
      const auto found = rewritten.Find(step->graph.value(result).name);
      if (!found) continue;
      begin = rewritten.value(*found).producer;
      break;
    }
  }
  step->begins.front() = 0;
  step->graph = std::move(rewritten);
  return {};
}

}  // namespace stowage
