#include "autodiff/dropout_ids.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"

namespace stowage {

namespace {

bool HasId(OpKind op) {
  return op == OpKind::kDropout || op == OpKind::kRandomUniform ||
         op == OpKind::kRandomNormal;
}

}  // namespace

int64_t DropoutIds(const Graph& graph) {
  int64_t ids = 0;
  for (const Node& node : graph.nodes()) {
    if (HasId(node.op)) {
      ids = std::max(ids, node.attrs.Int("id") + 1);
    }
    for (const auto& body : BodiesOf(node)) {
      ids = std::max(ids, DropoutIds(*body));
    }
  }
  return ids;
}

Attrs WithDropoutIdsFrom(const Node& node, int64_t first) {
  Attrs attrs = node.attrs;
  if (HasId(node.op)) attrs.Set("id", attrs.Int("id") + first);
  if (BodiesOf(node).empty()) return attrs;
  SubGraphs bodies;
  for (const auto& body : BodiesOf(node)) {
    if (DropoutIds(*body) == 0) {
      bodies.push_back(body);
      continue;
    }
    GraphBuilder g(body->name());
    GraphCopy copy(*body, &g);
    copy.DeclareLeaves();
    for (NodeId id = 0; id < body->num_nodes(); ++id) {
      copy.CopyNode(id, WithDropoutIdsFrom(body->node(id), first));
    }
    copy.DeclareOutputs();
    Result<Graph> copied = g.Finish();
    STOWAGE_CHECK(copied.ok());
    bodies.push_back(std::make_shared<const Graph>(*std::move(copied)));
  }
  attrs.Set("bodies", std::move(bodies));
  return attrs;
}

}  // namespace stowage
