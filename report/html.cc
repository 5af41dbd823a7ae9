#include "report/html.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/uses.h"
#include "planner/lifetimes.h"
#include "report/page_files.h"
#include "report/text.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

BufferKind KindOfValue(const Graph& graph, const Uses& uses, ValueId id) {
  const ValueInfo& value = graph.value(id);
  if (value.role == Role::kSaved) return BufferKind::kSaved;
  if (value.role == Role::kGradient) return BufferKind::kGradients;
  if (value.name.find(kRunAgainSuffix) != std::string::npos) {
    return BufferKind::kRecomputed;
  }
  const bool is_read_later = !uses.later_readers(id).empty();
  if (value.is_leaf()) {
    return is_read_later ? BufferKind::kSaved : BufferKind::kTemporary;
  }
  const Node& producer = graph.node(value.producer);
  const bool is_reloaded = producer.op == OpKind::kReload;
  switch (producer.phase) {
    case Phase::kForward:
      return is_read_later ? BufferKind::kSaved : BufferKind::kTemporary;
    case Phase::kBackward:
      return is_reloaded ? BufferKind::kSaved : BufferKind::kGradients;
    case Phase::kUpdate:
      return is_reloaded ? BufferKind::kState : BufferKind::kTemporary;
  }
  STOWAGE_CHECK(false);
}

// Among the values that use a buffer one after the other, the one that has it longest.
ValueId LongestIn(const Graph& graph, std::span<const ValueId> values,
                  Time upper) {
  ValueId longest = values.front();
  Time most = -1;
  for (size_t i = 0; i < values.size(); ++i) {
    const Time end = i + 1 < values.size()
                         ? Time{graph.value(values[i + 1]).producer}
                         : upper;
    const Time length = end - graph.value(values[i]).producer;
    if (length <= most) continue;
    most = length;
    longest = values[i];
  }
  return longest;
}

BufferKind KindOfBuffer(const Graph& graph, const Uses& uses,
                        const PlannedBuffer& buffer,
                        std::span<const ValueId> values) {
  switch (buffer.region) {
    case Region::kWeights:
      return BufferKind::kWeights;
    case Region::kState:
      return BufferKind::kState;
    case Region::kIo:
      return BufferKind::kInputs;
    case Region::kWorkspace:
      return BufferKind::kScratch;
    case Region::kHostState:
    case Region::kHostOffload:
    case Region::kOutside:
      return BufferKind::kHost;
    case Region::kActivations:
      break;
  }
  if (values.empty()) return BufferKind::kTemporary;
  return KindOfValue(graph, uses, LongestIn(graph, values, buffer.upper));
}

// Points of a loss curve that a screen can show.
constexpr size_t kMaxPoints = 2000;

Json Finite(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

void AddSource(const SourceLoc& source, Json* json) {
  if (source.is_known()) {
    (*json)["source"] = StrCat(source.file, ":", source.line);
  }
}

Json BufferJson(const ReportBuffer& buffer, const BufferDetails& details) {
  Json json = Json::object();
  json["name"] = buffer.name;
  json["region"] = RegionName(buffer.region);
  json["kind"] = BufferKindName(details.kind);
  json["address"] = buffer.address;
  json["bytes"] = buffer.size;
  json["lower"] = buffer.lower;
  json["upper"] = buffer.upper;
  Json values = Json::array();
  for (const ValueDetails& value : details.values) {
    Json one = Json::object();
    one["name"] = value.name;
    one["type"] = value.type;
    if (value.made != kNoNode) one["made"] = value.made;
    AddSource(value.source, &one);
    values.push_back(std::move(one));
  }
  json["values"] = std::move(values);
  json["readers"] = details.readers;
  return json;
}

Json ProgramJson(const PageProgram& program) {
  const Report& report = program.report;
  Json json = Json::object();
  json["name"] = program.name;
  json["figures"] = FiguresJson(report, 0);
  json["figures"]["alignment"] = report.alignment;
  Json nodes = Json::array();
  for (size_t i = 0; i < report.nodes.size(); ++i) {
    const ReportNode& node = report.nodes[i];
    Json one = Json::object();
    one["label"] = node.label;
    one["op"] = node.op;
    one["phase"] = PhaseName(node.phase);
    AddSource(program.node_sources[i], &one);
    nodes.push_back(std::move(one));
  }
  json["nodes"] = std::move(nodes);
  Json buffers = Json::array();
  for (size_t i = 0; i < report.buffers.size(); ++i) {
    buffers.push_back(BufferJson(report.buffers[i], program.details[i]));
  }
  json["buffers"] = std::move(buffers);
  Json live = Json::array();
  for (const RegionBytes& bytes : report.live) live.push_back(bytes.total());
  json["live"] = std::move(live);
  return json;
}

// Points of a curve: means of `each` steps, each at its last step.
Json LossesJson(std::span<const PageLoss> losses, size_t each) {
  Json json = Json::array();
  while (!losses.empty()) {
    const auto some = losses.first(std::min(each, losses.size()));
    losses = losses.subspan(some.size());
    double sum = 0;
    for (const PageLoss& loss : some) sum += loss.loss;
    json.push_back({{"step", some.back().step},
                    {"loss", Finite(sum / static_cast<double>(some.size()))}});
  }
  return json;
}

Json PageJson(const Page& page) {
  Json json = Json::object();
  json["title"] = page.title;
  json["compares"] = page.compares;
  json["budget_bytes"] = page.budget ? Json(*page.budget) : Json();
  Json kinds = Json::array();
  for (const BufferKind kind : kBufferKinds) {
    kinds.push_back(BufferKindName(kind));
  }
  json["kinds"] = std::move(kinds);
  json["programs"] = Json::array();
  for (const PageProgram& program : page.programs) {
    json["programs"].push_back(ProgramJson(program));
  }
  const size_t each = (page.losses.size() + kMaxPoints - 1) / kMaxPoints;
  json["steps_a_point"] = each;
  json["losses"] = LossesJson(page.losses, each);
  json["last_loss"] =
      page.losses.empty() ? Json() : Finite(page.losses.back().loss);
  json["held_out_loss"] =
      page.held_out_loss ? Finite(*page.held_out_loss) : Json();
  return json;
}

// JSON inside <script>, where "</script" and "<!--" would end or change it.
std::string InScript(const Json& json) {
  const std::string text =
      json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

// XmlEscaped, except that line ends stay.
std::string EscapedLines(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out += StrCat(XmlEscaped(text.substr(at, end - at)), "\n");
    at = end + 1;
  }
  return out;
}

// Tables for readers without scripts.
std::string Tables(const Page& page) {
  std::string out;
  for (const PageProgram& program : page.programs) {
    out += StrCat(program.name, "\n", SummaryTable(program.report),
                  PeakTable(program.report, 25), "\n");
  }
  return out;
}

}  // namespace

std::string_view BufferKindName(BufferKind kind) {
  switch (kind) {
    case BufferKind::kWeights:
      return "weights";
    case BufferKind::kState:
      return "state";
    case BufferKind::kInputs:
      return "inputs";
    case BufferKind::kSaved:
      return "saved";
    case BufferKind::kGradients:
      return "gradients";
    case BufferKind::kRecomputed:
      return "recomputed";
    case BufferKind::kTemporary:
      return "temporary";
    case BufferKind::kScratch:
      return "scratch";
    case BufferKind::kHost:
      return "host";
  }
  STOWAGE_CHECK(false);
}

std::vector<BufferDetails> MakeDetails(const Graph& graph, const Plan& plan) {
  const Layouts layouts = ComputeLayouts(graph);
  const Uses uses(graph, layouts);
  std::vector<std::vector<ValueId>> values(plan.buffers.size());
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const auto v = static_cast<size_t>(id);
    if (layouts[v].root != id) continue;
    values[static_cast<size_t>(plan.buffer_of[v])].push_back(id);
  }
  std::vector<BufferDetails> details(plan.buffers.size());
  for (size_t b = 0; b < details.size(); ++b) {
    details[b].kind = KindOfBuffer(graph, uses, plan.buffers[b], values[b]);
    std::vector<NodeId>& readers = details[b].readers;
    for (const ValueId id : values[b]) {
      const ValueInfo& value = graph.value(id);
      details[b].values.push_back({.name = value.name,
                                   .type = value.type.ToString(),
                                   .made = value.producer,
                                   .source = value.source});
      const std::span<const NodeId> more = uses.readers(id);
      readers.insert(readers.end(), more.begin(), more.end());
    }
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
  }
  for (const auto* scratch_of : {&plan.workspace_of, &plan.host_workspace_of}) {
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      const int32_t scratch = (*scratch_of)[static_cast<size_t>(id)];
      if (scratch < 0) continue;
      details[static_cast<size_t>(scratch)].readers.push_back(id);
    }
  }
  return details;
}

PageProgram DescribeProgram(std::string name, const Graph& graph,
                            const Plan& plan) {
  PageProgram program{.name = std::move(name),
                      .report = MakeReport(graph, plan),
                      .details = MakeDetails(graph, plan),
                      .node_sources = {}};
  program.node_sources.reserve(graph.nodes().size());
  for (const Node& node : graph.nodes()) {
    program.node_sources.push_back(graph.value(node.results.front()).source);
  }
  return program;
}

std::string ToHtml(const Page& page) {
  const std::pair<std::string_view, std::string> parts[] = {
      {"{{title}}", XmlEscaped(page.title)},
      {"{{style}}", std::string(kPageStyle)},
      {"{{tables}}", EscapedLines(Tables(page))},
      {"{{data}}", InScript(PageJson(page))},
      {"{{script}}", std::string(kPageScript)},
  };
  // The skeleton has each of them once, in this order.
  std::string out;
  std::string_view rest = kPageSkeleton.substr(1);  // behind a line's end
  for (const auto& [mark, text] : parts) {
    const size_t at = rest.find(mark);
    out += rest.substr(0, at);
    out += text;
    rest.remove_prefix(at + mark.size());
  }
  out += rest;
  return out;
}

}  // namespace stowage
