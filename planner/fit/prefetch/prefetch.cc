#include "planner/fit/prefetch/prefetch.h"

#include <algorithm>
#include <cstddef>
#include <limits>
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
#include "planner/fit/offload/offload.h"
#include "planner/lifetimes.h"

namespace stowage::fit {
namespace {

constexpr int kAttempts = 4;  // at packing what is alive in the budget

// Bytes that the budget leaves while each node runs.
std::vector<Bytes> RoomOf(const Graph& graph, const Plan& plan, Bytes budget) {
  std::vector<Bytes> live(Index(graph.num_nodes()) + 1, 0);
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (buffer.region != Region::kActivations &&
        buffer.region != Region::kWorkspace) {
      continue;
    }
    const Time end = std::min<Time>(buffer.upper, graph.num_nodes());
    if (buffer.lower >= end) continue;
    live[static_cast<size_t>(buffer.lower)] += buffer.size;
    live[static_cast<size_t>(end)] -= buffer.size;
  }
  std::vector<Bytes> room;
  Bytes sum = plan.arena_bytes() - plan.regions.span();
  for (size_t n = 0; n + 1 < live.size(); ++n) {
    sum += live[n];
    room.push_back(budget - sum);
  }
  return room;
}

// Before which node each reload is to stand; of other nodes, themselves. From the
// last to the first: a copy is to end when it is wanted, and when the link is
// wanted by the next.
std::vector<NodeId> Places(const Graph& graph, std::span<const double> costs,
                           Bytes alignment, std::vector<Bytes> room) {
  std::vector<double> work(1, 0);  // before each node, of all but copies
  std::vector<NodeId> places;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    const bool copies = BodiesOf(node).empty() && BytesCopied(graph, node) > 0;
    work.push_back(work.back() + (copies ? 0 : costs[Index(n)]));
    places.push_back(n);
  }
  double link_free = std::numeric_limits<double>::infinity();
  for (NodeId n = graph.num_nodes() - 1; n >= 0; --n) {
    const Node& node = graph.node(n);
    if (node.op != OpKind::kReload) continue;
    const double start = std::min(work[Index(n)], link_free) - costs[Index(n)];
    const Bytes bytes =
        AlignUp(graph.value(node.results[0]).type.bytes(), alignment);
    const NodeId offloaded = graph.value(node.inputs[0]).producer;
    NodeId& place = places[Index(n)];
    while (place - 1 > offloaded && work[Index(place)] > start &&
           room[Index(place - 1)] >= bytes) {
      --place;
      room[Index(place)] -= bytes;
    }
    link_free = std::max(start, work[Index(place)]);
  }
  return places;
}

std::vector<NodeId> OrderOf(const std::vector<NodeId>& places) {
  std::vector<std::vector<NodeId>> reloaded(places.size());  // before a node
  std::vector<NodeId> order;
  for (NodeId n = 0; n < static_cast<NodeId>(places.size()); ++n) {
    if (places[Index(n)] < n) reloaded[Index(places[Index(n)])].push_back(n);
  }
  for (NodeId n = 0; n < static_cast<NodeId>(places.size()); ++n) {
    order.insert(order.end(), reloaded[Index(n)].begin(),
                 reloaded[Index(n)].end());
    if (places[Index(n)] == n) order.push_back(n);
  }
  return order;
}

struct Moved {
  Graph graph;
  int reloads = 0;
};

// Moves reloads up, those in bodies aside.
Result<Moved> MoveUp(const Graph& graph, const Plan& plan, Bytes budget,
                     const CostFn& cost) {
  const std::vector<NodeId> places =
      Places(graph, cost(graph), plan.alignment, RoomOf(graph, plan, budget));
  Moved moved;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    moved.reloads += places[Index(n)] < n;
  }
  if (moved.reloads == 0) return Moved{.graph = graph};
  STOWAGE_ASSIGN_OR_RETURN(moved.graph, Reorder(graph, OrderOf(places)));
  return moved;
}

// Moves those in bodies up, and no others.
Result<Moved> MoveUpInBodies(const Graph& graph, const Plan& plan, Bytes budget,
                             const CostFn& cost) {
  const std::vector<Bytes> room = RoomOf(graph, plan, budget);
  Moved moved;
  GraphBuilder g(graph.name());
  GraphCopy copy(graph, &g);
  copy.DeclareLeaves();
  auto planned = plan.bodies.begin();
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    const int32_t scratch = plan.workspace_of[Index(n)];
    SubGraphs bodies;
    const int before = moved.reloads;
    for (const auto& body : BodiesOf(node)) {
      const Plan& of_body = (planned++)->plan;
      bodies.push_back(body);
      if (scratch < 0 || BytesCopied(graph, node) == 0) continue;
      // All that is not taken by what is around the body.
      const Bytes most = room[Index(n)] + plan.buffers[Index(scratch)].size;
      STOWAGE_ASSIGN_OR_RETURN(const Moved inside,
                               MoveUpInBodies(*body, of_body, most, cost));
      STOWAGE_ASSIGN_OR_RETURN(Moved all,
                               MoveUp(inside.graph, of_body, most, cost));
      bodies.back() = std::make_shared<const Graph>(std::move(all.graph));
      moved.reloads += inside.reloads + all.reloads;
    }
    Attrs attrs = node.attrs;
    if (moved.reloads > before) attrs.Set("bodies", std::move(bodies));
    copy.CopyNode(n, attrs);
  }
  if (moved.reloads == 0) return Moved{.graph = graph};
  copy.DeclareOutputs();
  STOWAGE_ASSIGN_OR_RETURN(moved.graph, g.Finish());
  return moved;
}

}  // namespace

Result<Prefetched> Prefetch(const Graph& graph, const Plan& plan, Bytes budget,
                            const CostFn& cost, PlanOptions options) {
  STOWAGE_CHECK(plan.arena_bytes() <= budget);
  options.budget.reset();
  Prefetched early{.graph = graph, .plan = plan};
  for (const auto move : {MoveUpInBodies, MoveUp}) {
    // What is alive fits; what is packed may not, and is then given less.
    Bytes most = budget;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      STOWAGE_ASSIGN_OR_RETURN(Moved moved,
                               move(early.graph, early.plan, most, cost));
      if (moved.reloads == 0) break;
      STOWAGE_ASSIGN_OR_RETURN(Plan anew, PlanMemory(moved.graph, options));
      if (anew.arena_bytes() > budget) {
        most -= anew.arena_bytes() - budget;
        continue;
      }
      early = {.graph = std::move(moved.graph),
               .plan = std::move(anew),
               .moved = early.moved + moved.reloads};
      break;
    }
  }
  return early;
}

}  // namespace stowage::fit
