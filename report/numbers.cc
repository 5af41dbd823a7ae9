#include "report/numbers.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/strings.h"
#include "ir/layout.h"
#include "ir/op_kind.h"
#include "ir/weight_type.h"
#include "planner/lifetimes.h"
#include "report/text.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

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
    case Region::kHostOffload:
      return regions.host_offload;
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

std::string FigureRow(std::string_view figure, std::string_view a,
                      std::string_view b, std::string_view difference) {
  return StrCat("| ", PadRight(figure, 18), " | ", PadLeft(a, 15), " | ",
                PadLeft(b, 15), " | ", PadLeft(difference, 18), " |\n");
}

std::string FigureRule(char c) {
  return StrCat("|", std::string(77, c), "|\n");
}

std::string BytesRow(std::string_view figure, Bytes a, Bytes b) {
  const Bytes more = b - a;
  std::string difference = StrCat(more > 0   ? "+"
                                  : more < 0 ? "-"
                                             : "",
                                  FormatBytes(more < 0 ? -more : more));
  if (a != 0)
    difference += StrCat(", ", Fixed(Report::Percent(more, a), 1), " %");
  return FigureRow(figure, FormatBytes(a), FormatBytes(b), difference);
}

std::string CountRow(std::string_view figure, size_t a, size_t b) {
  const int64_t more = static_cast<int64_t>(b) - static_cast<int64_t>(a);
  return FigureRow(figure, StrCat(a), StrCat(b),
                   StrCat(more > 0 ? "+" : "", more));
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

Json FiguresJson(const Report& report, size_t peak_limit) {
  Json regions = Json::object();
  for (const Region region : kRegions) {
    regions[std::string(RegionName(region))] = BytesOf(report.regions, region);
  }
  Json live = Json::array();
  const size_t count = std::min(peak_limit, report.peak_live.size());
  for (size_t i = 0; i < count; ++i) {
    const ReportBuffer& buffer =
        report.buffers[static_cast<size_t>(report.peak_live[i])];
    live.push_back({{"name", buffer.name},
                    {"bytes", buffer.size},
                    {"region", RegionName(buffer.region)}});
  }
  Json json = Json::object();
  json["graph"] = report.graph_name;
  json["params"] = report.params;
  json["flops"] = report.flops;
  json["arena_bytes"] = report.arena;
  json["host_bytes"] = report.host;
  json["lower_bound_bytes"] = report.lower_bound;
  json["no_reuse_bytes"] = report.no_reuse;
  json["caching_allocator_bytes"] = report.caching_allocator;
  json["saved_bytes"] = report.saved();
  json["regions"] = std::move(regions);
  json["nodes"] = report.nodes.size();
  json["buffers"] = report.buffers.size();
  json["views"] = report.views;
  json["in_place"] = report.in_place;
  json["peak_time"] = report.peak_time;
  json["peak_node"] = report.peak_node;
  json["peak_live"] = std::move(live);
  json["packer"] = report.packer;
  json["order"] = report.order;
  json["optimal"] = report.optimal;
  return json;
}

std::string ToJson(const Report& report) {
  Json json = FiguresJson(report, report.peak_live.size());
  json["alignment"] = report.alignment;
  Json timeline = Json::array();
  for (const ReportBuffer& buffer : report.buffers) {
    timeline.push_back({{"name", buffer.name},
                        {"region", RegionName(buffer.region)},
                        {"address", buffer.address},
                        {"bytes", buffer.size},
                        {"lower", buffer.lower},
                        {"upper", buffer.upper}});
  }
  json["timeline"] = std::move(timeline);
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string ComparisonText(const NamedReport& a, const NamedReport& b) {
  const Report& x = *a.report;
  const Report& y = *b.report;
  std::string out = FigureRule('=');
  out += FigureRow("Figure", a.name, b.name, "difference");
  out += FigureRule('-');
  out += BytesRow("arena", x.arena, y.arena);
  if (x.host > 0 || y.host > 0) out += BytesRow("host memory", x.host, y.host);
  out += BytesRow("lower bound", x.lower_bound, y.lower_bound);
  out += BytesRow("no reuse", x.no_reuse, y.no_reuse);
  out += BytesRow("saved", x.saved(), y.saved());
  out +=
      BytesRow("caching allocator", x.caching_allocator, y.caching_allocator);
  out += FigureRule('-');
  for (const Region region : kRegions) {
    out += BytesRow(RegionName(region), BytesOf(x.regions, region),
                    BytesOf(y.regions, region));
  }
  out += FigureRule('-');
  out += CountRow("nodes", x.nodes.size(), y.nodes.size());
  out += CountRow("buffers", x.buffers.size(), y.buffers.size());
  out +=
      FigureRow("GFLOP a run", Fixed(x.flops / 1e9, 3), Fixed(y.flops / 1e9, 3),
                Fixed((y.flops - x.flops) / 1e9, 3));
  out += FigureRule('=');
  return out;
}

Json ComparisonJson(const NamedReport& a, const NamedReport& b) {
  Json json = Json::object();
  json["plans"] = Json::array();
  for (const NamedReport& plan : {a, b}) {
    Json figures = Json::object();
    figures["name"] = plan.name;
    figures.update(FiguresJson(*plan.report, plan.report->peak_live.size()));
    json["plans"].push_back(std::move(figures));
  }
  Json difference = Json::object();
  for (const auto& [name, value] : json["plans"][0].items()) {
    if (!value.is_number_integer() && !value.is_number_unsigned()) continue;
    difference[name] =
        json["plans"][1][name].get<int64_t>() - value.get<int64_t>();
  }
  json["difference"] = std::move(difference);
  return json;
}

}  // namespace stowage
