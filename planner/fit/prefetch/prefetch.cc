#include "planner/fit/prefetch/prefetch.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/index.h"
#include "ir/reorder.h"
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

// Before which node each fetch is to stand; of other nodes, themselves. From the
// last to the first: a copy is to end when it is wanted, and when the link is
// wanted by the next.
std::vector<NodeId> Places(const Graph& graph, std::span<const double> costs,
                           Bytes alignment, std::vector<Bytes> room) {
  std::vector<double> work(1, 0);  // before each node, of all but copies
  std::vector<NodeId> places;
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const bool copies = BytesCopied(graph, graph.node(n)) > 0;
    work.push_back(work.back() + (copies ? 0 : costs[Index(n)]));
    places.push_back(n);
  }
  double link_free = std::numeric_limits<double>::infinity();
  for (NodeId n = graph.num_nodes() - 1; n >= 0; --n) {
    const Node& node = graph.node(n);
    if (node.op != OpKind::kFetch) continue;
    const double start = std::min(work[Index(n)], link_free) - costs[Index(n)];
    const Bytes bytes =
        AlignUp(graph.value(node.results[0]).type.bytes(), alignment);
    const NodeId stashed = graph.value(node.inputs[0]).producer;
    NodeId& place = places[Index(n)];
    while (place - 1 > stashed && work[Index(place)] > start &&
           room[Index(place - 1)] >= bytes) {
      --place;
      room[Index(place)] -= bytes;
    }
    link_free = std::max(start, work[Index(place)]);
  }
  return places;
}

std::vector<NodeId> OrderOf(const std::vector<NodeId>& places) {
  std::vector<std::vector<NodeId>> fetched(places.size());  // before a node
  std::vector<NodeId> order;
  for (NodeId n = 0; n < static_cast<NodeId>(places.size()); ++n) {
    if (places[Index(n)] < n) fetched[Index(places[Index(n)])].push_back(n);
  }
  for (NodeId n = 0; n < static_cast<NodeId>(places.size()); ++n) {
    order.insert(order.end(), fetched[Index(n)].begin(),
                 fetched[Index(n)].end());
    if (places[Index(n)] == n) order.push_back(n);
  }
  return order;
}

}  // namespace

Result<Prefetched> Prefetch(const Graph& graph, const Plan& plan, Bytes budget,
                            std::span<const double> costs,
                            PlanOptions options) {
  STOWAGE_CHECK(plan.arena_bytes() <= budget);
  STOWAGE_CHECK(costs.size() == Index(graph.num_nodes()));
  options.budget.reset();
  // What is alive fits; what is packed may not, and is then given less.
  Bytes most = budget;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::vector<NodeId> places =
        Places(graph, costs, plan.alignment, RoomOf(graph, plan, most));
    Prefetched made;
    for (NodeId n = 0; n < graph.num_nodes(); ++n) {
      made.moved += places[Index(n)] < n;
    }
    if (made.moved == 0) break;
    STOWAGE_ASSIGN_OR_RETURN(made.graph, Reorder(graph, OrderOf(places)));
    STOWAGE_ASSIGN_OR_RETURN(made.plan, PlanMemory(made.graph, options));
    if (made.plan.arena_bytes() <= budget) return made;
    most -= made.plan.arena_bytes() - budget;
  }
  return Prefetched{.graph = graph, .plan = plan};
}

}  // namespace stowage::fit
