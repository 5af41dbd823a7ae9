#include "report/report_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/lifetimes.h"

namespace stowage {

using Json = nlohmann::ordered_json;

namespace {

Json TrafficRowJson(const TrafficRow& row, bool has_device) {
  Json json = {{"launches", row.launches},
               {"read_bytes", row.read},
               {"written_bytes", row.written},
               {"flops", row.flops}};
  if (has_device) json["roofline_seconds"] = row.seconds;
  return json;
}

}  // namespace

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

Json TrafficJson(const Traffic& traffic) {
  const bool has_device = traffic.device.has_value();
  Json json = Json::object();
  json["total_bytes"] = traffic.total.moved();
  json["total"] = TrafficRowJson(traffic.total, has_device);
  json["without_products_and_attention"] =
      TrafficRowJson(traffic.rest, has_device);
  json["families"] = Json::object();
  for (const TrafficRow& row : traffic.families) {
    json["families"][row.family] = TrafficRowJson(row, has_device);
  }
  if (has_device) {
    const RatedDevice& rates = *traffic.device;
    json["device"] = {{"name", rates.name},
                      {"bytes_per_second", rates.bytes_per_second},
                      {"flops_16_bit_per_second", rates.flops_16_bit},
                      {"flops_f32_per_second", rates.flops_f32},
                      {"source", rates.source}};
  }
  return json;
}

}  // namespace stowage
