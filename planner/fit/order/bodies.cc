#include "planner/fit/order/bodies.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/index.h"
#include "ir/attrs.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/reorder.h"
#include "planner/fit/collectives.h"
#include "planner/fit/order/order.h"
#include "planner/fit/order/problem.h"
#include "planner/lifetimes.h"

namespace stowage::fit {
namespace {

using Body = std::shared_ptr<const Graph>;

class BodyOrderer {
 public:
  BodyOrderer(const PlanOptions& options, int64_t effort)
      : options_(options),
        effort_(effort),
        workspace_(NodeWorkspace(options)) {}

  Result<Graph> Order(const Graph& graph) {
    GraphBuilder g(graph.name());
    GraphCopy copy(graph, &g);
    copy.DeclareLeaves();
    bool changed = false;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const Node& node = graph.node(id);
      if (BodiesOf(node).empty()) {
        copy.CopyNode(id);
        continue;
      }
      SubGraphs bodies;
      for (const Body& body : BodiesOf(node)) {
        // Pieces of a batch share their bodies.
        auto at = ordered_.find(body.get());
        if (at == ordered_.end()) {
          STOWAGE_ASSIGN_OR_RETURN(Body found, OrderBody(graph, node, body));
          at = ordered_.emplace(body.get(), std::move(found)).first;
        }
        changed = changed || at->second != body;
        bodies.push_back(at->second);
      }
      copy.CopyNode(id, AttrsWith(node, std::move(bodies)));
    }
    if (!changed) return graph;
    copy.DeclareOutputs();
    return g.Finish();
  }

 private:
  static Attrs AttrsWith(const Node& node, SubGraphs bodies) {
    Attrs attrs = node.attrs;
    attrs.Set("bodies", std::move(bodies));
    return attrs;
  }

  // Of the body, were it the only one of the node.
  Bytes ArenaOf(const Graph& graph, const Node& node, const Body& body) const {
    Node alone = node;
    alone.attrs = AttrsWith(node, SubGraphs{body});
    return workspace_(graph, alone);
  }

  // The body with what is in it ordered, and in another order itself, if that is better.
  Result<Body> OrderBody(const Graph& graph, const Node& node,
                         const Body& body) {
    if (HoldsCollectives(*body)) return body;
    STOWAGE_ASSIGN_OR_RETURN(Graph inside, Order(*body));
    OrderProblem problem = MakeOrderProblem(
        inside, options_.alignment,
        {.in_place = options_.in_place, .workspace = workspace_});
    for (OrderContent& content : problem.contents) {
      if (!content.kept) continue;  // all but outputs die
      content.size = 0;
      if (content.maker >= 0) {
        problem.tasks[Index(content.maker)].may_replace.clear();
      }
    }
    STOWAGE_ASSIGN_OR_RETURN(
        Graph reordered,
        Reorder(inside, FindMemoryOrder(problem, effort_).order));
    Body best = body;
    Bytes least = ArenaOf(graph, node, body);
    for (Graph* const each : {&inside, &reordered}) {
      Body made = std::make_shared<const Graph>(std::move(*each));
      const Bytes arena = ArenaOf(graph, node, made);
      if (arena >= least) continue;
      least = arena;
      best = std::move(made);
    }
    return best;
  }

  const PlanOptions& options_;
  const int64_t effort_;
  const WorkspaceFn workspace_;
  std::map<const Graph*, Body> ordered_;
};

}  // namespace

Result<Graph> OrderBodies(const Graph& graph, const PlanOptions& options,
                          int64_t effort) {
  const bool has_bodies = std::ranges::any_of(
      graph.nodes(), [](const Node& node) { return !BodiesOf(node).empty(); });
  if (!has_bodies) return graph;
  return BodyOrderer(options, effort).Order(graph);
}

}  // namespace stowage::fit
