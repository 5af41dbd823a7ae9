#include "report/trace.h"

#include <nlohmann/json.hpp>

#include "ir/graph.h"
#include "planner/lifetimes.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kProcess = 1;

Json Metadata(const char* what, int thread, std::string_view name) {
  return {{"ph", "M"},
          {"pid", kProcess},
          {"tid", thread},
          {"name", what},
          {"args", {{"name", name}}}};
}

int ThreadOf(Phase phase) { return static_cast<int>(phase) + 1; }

}  // namespace

std::string ToChromeTrace(const Report& report) {
  Json events = Json::array();
  events.push_back(Metadata("process_name", 0, report.graph_name));
  for (const Phase phase :
       {Phase::kForward, Phase::kBackward, Phase::kUpdate}) {
    events.push_back(
        Metadata("thread_name", ThreadOf(phase), PhaseName(phase)));
  }
  for (size_t time = 0; time < report.nodes.size(); ++time) {
    const ReportNode& node = report.nodes[time];
    events.push_back({{"ph", "X"},
                      {"pid", kProcess},
                      {"tid", ThreadOf(node.phase)},
                      {"ts", time},
                      {"dur", 1},
                      {"name", node.label},
                      {"cat", PhaseName(node.phase)},
                      {"args", {{"op", node.op}, {"flops", node.flops}}}});
    Json bytes = Json::object();
    for (const Region region : kRegions) {
      bytes[std::string(RegionName(region))] =
          BytesOf(report.live[time], region);
    }
    events.push_back({{"ph", "C"},
                      {"pid", kProcess},
                      {"ts", time},
                      {"name", "live bytes"},
                      {"args", std::move(bytes)}});
  }
  const Json trace = {{"traceEvents", std::move(events)},
                      {"displayTimeUnit", "ns"},
                      {"otherData",
                       {{"graph", report.graph_name},
                        {"arena_bytes", report.arena},
                        {"time", "one node is drawn as one microsecond"}}}};
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace stowage
