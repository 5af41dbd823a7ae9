#include "report/text.h"

#include <algorithm>

#include "base/strings.h"
#include "planner/lifetimes.h"
#include "report/format.h"
#include "report/memory_map.h"

namespace stowage {
namespace {

constexpr size_t kWidth = 79;

std::string Rule(char c) {
  return StrCat("|", std::string(kWidth - 2, c), "|\n");
}

std::string Line(std::string_view text) {
  return StrCat("| ", PadRight(text, kWidth - 4), " |\n");
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
    case Region::kHostStash:
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

}  // namespace stowage
