#include "tests/support/offload_values_in_bodies.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/attrs.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/uses.h"
#include "planner/fit/offload/offload.h"
#include "tests/support/random_graph.h"

namespace stowage::testing {
namespace {

Graph OffloadIn(const Graph& body, Rng* rng);

// `graph` with what `OffloadIn` makes of its bodies.
Graph WithBodiesOffloaded(const Graph& graph, Rng* rng) {
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    Attrs attrs = node.attrs;
    SubGraphs bodies;
    for (const auto& body : BodiesOf(node)) {
      bodies.push_back(std::make_shared<const Graph>(OffloadIn(*body, rng)));
    }
    if (!bodies.empty()) attrs.Set("bodies", std::move(bodies));
    copy.CopyNode(n, attrs);
  }
  copy.DeclareOutputs();
  Result<Graph> made = g.Finish();
  STOWAGE_CHECK(made.ok());
  return *std::move(made);
}

Graph OffloadIn(const Graph& body, Rng* rng) {
  const Graph graph = WithBodiesOffloaded(body, rng);
  const Layouts layouts = ComputeLayouts(graph);
  const Uses uses(graph, layouts);
  std::vector<fit::Offloadable> moved;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& value = graph.value(id);
    const std::span<const NodeId> readers = uses.readers(id);
    if (value.is_leaf() || value.on_host || value.role == Role::kConstant ||
        layouts[Index(id)].root != id || uses.is_output(id) ||
        readers.empty() || rng->Below(2) == 0) {
      continue;
    }
    const auto to =
        static_cast<size_t>(rng->Below(static_cast<int64_t>(readers.size())));
    fit::Offloadable& each = moved.emplace_back(
        fit::Offloadable{.value = id,
                         .bytes = value.type.bytes(),
                         .from = to == 0 ? value.producer : readers[to - 1],
                         .to = readers[to]});
    for (const NodeId later : readers.subspan(to + 1)) {
      if (rng->Below(2) == 0) each.again.push_back(later);
    }
  }
  Result<Graph> offloaded = fit::Offload(graph, moved);
  STOWAGE_CHECK(offloaded.ok());
  return *std::move(offloaded);
}

}  // namespace

Graph OffloadValuesInBodies(const Graph& graph, uint64_t seed) {
  Rng rng(seed);
  return WithBodiesOffloaded(graph, &rng);
}

}  // namespace stowage::testing
