#include "report/numbers.h"

#include <algorithm>

#include "ir/layout.h"
#include "ir/op_kind.h"
#include "ir/parameter_count.h"
#include "planner/lifetimes.h"

namespace stowage {
namespace {

Bytes& Field(RegionBytes& regions, Region region) {
  switch (region) {
    case Region::kWeights:
      return regions.weights;
    case Region::kState:
      return regions.state;
    case Region::kIo:
      return regions.io;
    case Region::kActivations:
      return regions.activations;
    case Region::kWorkspace:
    case Region::kOutside:  // of bodies alone, in no sum
      break;
    case Region::kHostState:
      return regions.host_state;
    case Region::kHostStash:
      return regions.host_stash;
  }
  return regions.workspace;
}

// Live bytes of each region at every node: births added, deaths taken away,
// then summed over time.
std::vector<RegionBytes> LiveBytes(const Plan& plan, size_t nodes) {
  std::vector<RegionBytes> live(nodes + 1);
  const Time end = static_cast<Time>(nodes);
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (IsOnHost(buffer.region)) continue;
    const Time lower = std::clamp<Time>(buffer.lower, 0, end);
    const Time upper = std::clamp<Time>(buffer.upper, lower, end);
    Field(live[static_cast<size_t>(lower)], buffer.region) += buffer.size;
    Field(live[static_cast<size_t>(upper)], buffer.region) -= buffer.size;
  }
  for (size_t time = 1; time <= nodes; ++time) {
    for (const Region region : kRegions) {
      Field(live[time], region) += Field(live[time - 1], region);
    }
  }
  live.resize(nodes);
  return live;
}

}  // namespace

Bytes BytesOf(const RegionBytes& regions, Region region) {
  RegionBytes copy = regions;
  return Field(copy, region);
}

Report MakeReport(const Graph& graph, const Plan& plan) {
  Report report;
  report.graph_name = graph.name();
  report.params = ParameterCount(graph);
  report.nodes.reserve(graph.nodes().size());
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    report.nodes.push_back({.label = graph.Describe(id),
                            .op = std::string(OpName(node.op)),
                            .phase = node.phase,
                            .flops = NodeFlops(graph, node)});
    report.flops += report.nodes.back().flops;
  }
  report.buffers.reserve(plan.buffers.size());
  for (const PlannedBuffer& buffer : plan.buffers) {
    report.buffers.push_back({.name = buffer.name,
                              .region = buffer.region,
                              .address = plan.AddressOf(buffer),
                              .size = buffer.size,
                              .lower = buffer.lower,
                              .upper = buffer.upper});
  }
  report.views = plan.views;
  report.in_place = plan.in_place;
  report.alignment = plan.alignment;
  report.regions = plan.regions;
  report.arena = plan.arena_bytes();
  report.host = plan.host_bytes();
  report.lower_bound = plan.lower_bound;
  report.no_reuse = plan.no_reuse;
  report.caching_allocator = plan.caching_allocator;
  report.packer = plan.packer;
  report.order = plan.order;
  report.optimal = plan.optimal;
  report.peak_time = plan.peak_time;
  if (plan.peak_time >= 0 && plan.peak_time < graph.num_nodes()) {
    report.peak_node = graph.Describe(static_cast<NodeId>(plan.peak_time));
  }
  report.peak_live = LiveAt(plan, plan.peak_time);
  report.live = LiveBytes(plan, graph.nodes().size());
  return report;
}

}  // namespace stowage
