#include "report/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "ir/text_scanner.h"
#include "planner/lifetimes.h"
#include "planner/stream.h"
#include "report/details.h"

namespace stowage {

namespace {

constexpr size_t kTextWidth = 79;

std::string Rule(char c) {
  return StrCat("|", std::string(kTextWidth - 2, c), "|\n");
}

std::string Line(std::string_view text) {
  return StrCat("| ", PadRight(text, kTextWidth - 4), " |\n");
}

std::string Percent(double value) { return StrCat(Fixed(value, 1), " %"); }

// name | size | share | what or how
std::string Row(std::string_view name, std::string_view size,
                std::string_view share, std::string_view note) {
  return StrCat("| ", PadRight(name, 17), " | ", PadLeft(size, 10), " | ",
                PadLeft(share, 7), " | ", PadRight(note, 32), " |\n");
}

std::string_view WhatIs(Region region) {
  switch (region) {
    case Region::kWeights:
      return "params, once for all programs";
    case Region::kState:
      return "optimizer memory";
    case Region::kIo:
      return "inputs";
    case Region::kActivations:
      return "values, gradients, outputs";
    case Region::kHostState:
    case Region::kHostOffload:
      return "offloaded";
    case Region::kWorkspace:
    case Region::kOutside:  // of bodies alone, in no sum
      break;
  }
  return "what kernel scratch adds to that";
}

}  // namespace

std::string SummaryTable(const Report& report) {
  std::string out = Rule('=');
  out += Line(StrCat("memory plan of ", Quoted(report.graph_name)));
  out += Line(StrCat(WithCommas(report.params), " parameters, ",
                     Fixed(report.flops / 1e9, 3),
                     " GFLOP a run, slots aligned to ", report.alignment));
  out += Line(StrCat(report.nodes.size(), " nodes, ", report.buffers.size(),
                     " buffers, ", report.views, " views, ", report.in_place,
                     " written in place"));
  out += Line(StrCat("packer ", report.packer, ", order ", report.order,
                     report.optimal ? "; no packing is smaller" : ""));
  out += Rule('=');
  out += Row("Region", "Size", "Share", "What it holds");
  out += Rule('-');
  for (const Region region : kRegions) {
    const Bytes bytes = BytesOf(report.regions, region);
    out += Row(RegionName(region), FormatBytes(bytes),
               Percent(Report::Percent(bytes, report.arena)), WhatIs(region));
  }
  out += Rule('=');
  out += Row("Figure", "Size", "", "Formula");
  out += Rule('-');
  out += Row("arena", FormatBytes(report.arena), "",
             "sum of the regions = allocated");
  if (report.host > 0) {
    out += Row("host memory", FormatBytes(report.host), "",
               "offloaded, beside the arena");
  }
  out += Row("lower bound", FormatBytes(report.lower_bound), "",
             "reserved + max over t of live(t)");
  out +=
      Row("fragmentation", FormatBytes(report.arena - report.lower_bound),
          Percent(report.fragmentation_percent()), "arena / lower bound - 1");
  out += Row("no reuse", FormatBytes(report.no_reuse), "",
             "every value in a slot of its own");
  out += Row("saved", FormatBytes(report.saved()),
             Percent(report.saved_percent()), "(no reuse - arena) / no reuse");
  out += Row("caching allocator", FormatBytes(report.caching_allocator), "",
             "simulated; 2 and 20 MiB segments");
  // Below zero when the arena is the larger one.
  const Bytes over = report.saved_over_caching();
  out += Row("saved over it",
             StrCat(over < 0 ? "-" : "", FormatBytes(over < 0 ? -over : over)),
             Percent(report.saved_over_caching_percent()),
             "(caching - arena) / caching");
  out += Rule('=');
  return out;
}

std::string PeakTable(const Report& report, size_t limit) {
  std::string out = Rule('=');
  out +=
      Line(StrCat("peak: time ", report.peak_time, " of ", report.nodes.size(),
                  report.peak_node.empty() ? "" : ", ", report.peak_node));
  out += Rule('-');
  out += StrCat("| ", PadRight("Live buffer", 33), " | ", PadLeft("Size", 10),
                " | ", PadRight("Lifetime", 12), " | ", PadRight("Region", 11),
                " |\n");
  out += Rule('-');
  const size_t shown = std::min(limit, report.peak_live.size());
  for (size_t i = 0; i < shown; ++i) {
    const ReportBuffer& buffer =
        report.buffers[static_cast<size_t>(report.peak_live[i])];
    out += StrCat("| ", PadRight(buffer.name, 33), " | ",
                  PadLeft(FormatBytes(buffer.size), 10), " | ",
                  PadRight(Interval(buffer.lower, buffer.upper), 12), " | ",
                  PadRight(RegionName(buffer.region), 11), " |\n");
  }
  if (shown < report.peak_live.size()) {
    Bytes rest = 0;
    for (size_t i = shown; i < report.peak_live.size(); ++i) {
      rest += report.buffers[static_cast<size_t>(report.peak_live[i])].size;
    }
    out += Line(StrCat("and ", report.peak_live.size() - shown, " more, ",
                       FormatBytes(rest)));
  }
  out += Rule('=');
  return out;
}

std::string ToText(const Report& report) {
  const std::string map = MemoryMap(report);
  return WithoutControls(StrCat(SummaryTable(report), "\n",
                                PeakTable(report, 10), map.empty() ? "" : "\n",
                                map));
}

namespace {

std::string Cut(std::string_view text, size_t width) {
  if (text.size() <= width) return std::string(text);
  if (width <= 3) return std::string(text.substr(0, width));
  return StrCat(text.substr(0, width - 3), "...");
}

}  // namespace

std::string PadRight(std::string_view text, size_t width) {
  std::string out = Cut(text, width);
  out.resize(width, ' ');
  return out;
}

std::string PadLeft(std::string_view text, size_t width) {
  const std::string out = Cut(text, width);
  return std::string(width - out.size(), ' ') + out;
}

std::string Interval(packing::Time lower, packing::Time upper) {
  return StrCat("[", lower, ", ", upper, ")");
}

std::string WithCommas(int64_t value) {
  const std::string digits = StrCat(value);
  const size_t first = value < 0 ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

namespace {

// `text` with U+FFFD in place of bytes that are no UTF-8.
std::string WellFormed(std::string_view text) {
  using Json = nlohmann::json;
  if (std::ranges::all_of(
          text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    return std::string(text);
  }
  return Json::parse(
      Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::string XmlEscaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : WellFormed(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

namespace {

std::string At(const StreamPlace& place) {
  if (!place.outside.empty()) {
    return StrCat("@outside:", place.address, "+", place.bytes, " at ",
                  NameText(place.outside));
  }
  return StrCat(place.on_host ? "@host:" : "@", place.address, "+",
                place.bytes);
}

std::string ValueText(const StreamValue& value) {
  return StrCat(NameText(value.name),
                value.root == value.name ? std::string()
                                         : StrCat(" of ", NameText(value.root)),
                " ", At(value.place), value.in_place ? " in place" : "");
}

std::string ListText(const std::vector<StreamValue>& values) {
  std::string out;
  for (const StreamValue& value : values) {
    out += StrCat(out.empty() ? "" : ", ", ValueText(value));
  }
  return out;
}

std::string LaunchText(const StreamEvent& event) {
  std::string out = StrCat(OpName(event.op), " ", ListText(event.results));
  if (!event.operands.empty()) out += StrCat(" <- ", ListText(event.operands));
  std::string_view with = " with scratch ";
  for (const StreamPlace& scratch : {event.scratch, event.host_scratch}) {
    if (scratch.bytes == 0) continue;
    out += StrCat(with, At(scratch));
    with = " and ";
  }
  return out;
}

std::string BodyText(const StreamEvent& event) {
  std::string out = StrCat("body ", NameText(event.body));
  if (event.kind == StreamEventKind::kLeave) return out;
  if (event.op == OpKind::kLoop)
    out += StrCat(", ", event.iterations, " times");
  for (const StreamHanded& handed : event.handed) {
    out += StrCat(", ", NameText(handed.leaf), " to ", NameText(handed.output));
    if (handed.in_one_place) out += " in one place";
    if (handed.second.bytes > 0) {
      out += StrCat(" alternating with ", At(handed.second));
    }
  }
  return out;
}

std::string What(const StreamEvent& event) {
  switch (event.kind) {
    case StreamEventKind::kLaunch:
      return LaunchText(event);
    case StreamEventKind::kEnter:
    case StreamEventKind::kLeave:
      return BodyText(event);
    case StreamEventKind::kAllocate:
    case StreamEventKind::kKill:
      break;
  }
  std::string out = StrCat(RegionName(event.region), " ", NameText(event.name));
  const std::string& outside = event.place.outside;
  if (!outside.empty() && outside != event.name) {
    out += StrCat(" at ", NameText(outside));
  }
  return out;
}

// The columns of a line before the last.
struct Columns {
  std::string time, event, memory, address, bytes;
};

Columns ColumnsOf(const StreamEvent& event) {
  const std::string time = StrCat(event.time);
  const std::string name(StreamEventName(event.kind));
  if (event.kind != StreamEventKind::kAllocate &&
      event.kind != StreamEventKind::kKill) {
    return {time, name, "-", "-", "-"};
  }
  const char* const memory = !event.place.outside.empty() ? "outside"
                             : event.place.on_host        ? "host"
                                                          : "arena";
  return {time, name, memory, StrCat(event.place.address),
          StrCat(event.place.bytes)};
}

}  // namespace

std::string ToStreamText(const Graph& graph, const Plan& plan) {
  const std::vector<StreamEvent> events = MakeStream(graph, plan);
  const Columns titles = {"time", "event", "memory", "address", "bytes"};
  size_t time = titles.time.size();
  size_t memory = titles.memory.size();
  size_t address = titles.address.size();
  size_t bytes = titles.bytes.size();
  for (const StreamEvent& event : events) {
    const Columns columns = ColumnsOf(event);
    time = std::max(time, columns.time.size());
    memory = std::max(memory, columns.memory.size());
    address = std::max(address, columns.address.size());
    bytes = std::max(bytes, columns.bytes.size());
  }
  const auto line = [&](const Columns& columns, std::string_view what) {
    return StrCat(PadLeft(columns.time, time), "  ", PadRight(columns.event, 8),
                  "  ", PadRight(columns.memory, memory), "  ",
                  PadLeft(columns.address, address), "  ",
                  PadLeft(columns.bytes, bytes), "  ", what, "\n");
  };
  std::string out = StrCat("stream of ", QuotedText(graph.name()), ": arena ",
                           plan.arena_bytes(), " bytes, host ",
                           plan.host_bytes(), " bytes, slots of ",
                           plan.alignment, " bytes\n", line(titles, "what"));
  for (const StreamEvent& event : events) {
    out += line(ColumnsOf(event),
                StrCat(std::string(static_cast<size_t>(2 * event.depth), ' '),
                       What(event)));
  }
  return out;
}

}  // namespace stowage
