#include "report/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/text_scanner.h"
#include "planner/lifetimes.h"
#include "planner/stream.h"

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

// name | size | share | note
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

constexpr char kFree = '.';
constexpr char kElsewhere = '\0';  // on the host: not in the image
constexpr size_t kMarginWidth = 11;

char SignOf(Region region) {
  switch (region) {
    case Region::kWeights:
      return 'w';
    case Region::kState:
      return 's';
    case Region::kIo:
      return 'i';
    case Region::kActivations:
      return '+';
    case Region::kWorkspace:
      break;
    case Region::kHostState:
    case Region::kHostOffload:
    case Region::kOutside:
      return kElsewhere;
  }
  return '~';
}

std::string_view SignMeaning(char sign) {
  switch (sign) {
    case 'w':
      return "weights";
    case 's':
      return "optimizer state";
    case 'i':
      return "inputs";
    case '+':
      return "other activations and gradients";
    case '~':
      return "workspace";
  }
  return "free";
}

bool IsPacked(const ReportBuffer& buffer) {
  return buffer.region == Region::kActivations ||
         buffer.region == Region::kWorkspace;
}

// The indices of the largest packed buffers, largest first.
std::vector<size_t> Largest(const Report& report, int count) {
  std::vector<size_t> order;
  for (size_t i = 0; i < report.buffers.size(); ++i) {
    if (IsPacked(report.buffers[i]) && report.buffers[i].size > 0) {
      order.push_back(i);
    }
  }
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return report.buffers[a].size > report.buffers[b].size;
  });
  order.resize(std::min(order.size(), static_cast<size_t>(count)));
  return order;
}

// The fraction of the cell [at, at + 1) of `cells`, over a length of `whole`, that the range
// [begin, end) covers.
double Share(int64_t begin, int64_t end, int at, int cells, int64_t whole) {
  const double cell = static_cast<double>(whole) / cells;
  const double from = std::max(static_cast<double>(begin), at * cell);
  const double to = std::min(static_cast<double>(end), (at + 1) * cell);
  return std::max(0.0, (to - from) / cell);
}

struct CellRange {
  int begin;
  int end;
};

// The cells that the range touches.
CellRange Touched(int64_t begin, int64_t end, int cells, int64_t whole) {
  const double per_unit =
      static_cast<double>(cells) / static_cast<double>(whole);
  const int first = static_cast<int>(static_cast<double>(begin) * per_unit);
  const int last = static_cast<int>(static_cast<double>(end) * per_unit) + 1;
  return {std::clamp(first, 0, cells), std::clamp(last, 0, cells)};
}

struct Grid {
  int rows;
  int columns;
  std::vector<char> signs;

  char& at(int row, int column) {
    return signs[static_cast<size_t>(row) * static_cast<size_t>(columns) +
                 static_cast<size_t>(column)];
  }
};

// Each cell shows the sign that covers most of it; buffers that share a sign are added up, and
// so is free space.
Grid Draw(const Report& report, const std::vector<char>& sign_of, int rows,
          int columns) {
  const Time end = static_cast<Time>(report.nodes.size());
  const std::string signs = [&] {
    std::string all;
    for (const char sign : sign_of) {
      const bool drawn = sign != kElsewhere;
      if (drawn && all.find(sign) == std::string::npos) all += sign;
    }
    return all;
  }();
  const size_t cells = static_cast<size_t>(rows) * static_cast<size_t>(columns);
  std::vector<double> best(cells, 0.0);
  std::vector<double> used(cells, 0.0);
  Grid grid{rows, columns, std::vector<char>(cells, kFree)};
  std::vector<double> share(cells);
  for (const char sign : signs) {
    std::ranges::fill(share, 0.0);
    for (size_t i = 0; i < report.buffers.size(); ++i) {
      const ReportBuffer& buffer = report.buffers[i];
      if (sign_of[i] != sign) continue;
      const Time lower = std::clamp<Time>(buffer.lower, 0, end);
      const Time upper = std::clamp<Time>(buffer.upper, lower, end);
      const Bytes top = buffer.address + AlignUp(buffer.size, report.alignment);
      const CellRange times = Touched(lower, upper, columns, end);
      const CellRange addresses =
          Touched(buffer.address, top, rows, report.arena);
      for (int row = addresses.begin; row < addresses.end; ++row) {
        const double height =
            Share(buffer.address, top, row, rows, report.arena);
        for (int column = times.begin; column < times.end; ++column) {
          share[static_cast<size_t>(row) * static_cast<size_t>(columns) +
                static_cast<size_t>(column)] +=
              height * Share(lower, upper, column, columns, end);
        }
      }
    }
    for (size_t cell = 0; cell < cells; ++cell) {
      used[cell] += share[cell];
      if (share[cell] > best[cell]) {
        best[cell] = share[cell];
        grid.signs[cell] = sign;
      }
    }
  }
  for (size_t cell = 0; cell < cells; ++cell) {
    if (used[cell] < 0.5) grid.signs[cell] = kFree;
  }
  return grid;
}

std::string Cut(std::string_view text, size_t width) {
  if (text.size() <= width) return std::string(text);
  if (width <= 3) return std::string(text.substr(0, width));
  return StrCat(text.substr(0, width - 3), "...");
}

// `text` with U+FFFD for bytes that are not UTF-8.
std::string WellFormed(std::string_view text) {
  using Json = nlohmann::json;
  if (std::ranges::all_of(
          text, [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    return std::string(text);
  }
  return Json::parse(
      Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

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
  // Negative if the arena is larger.
  const Bytes over = report.saved_over_caching();
  out += Row("saved over it",
             StrCat(over < 0 ? "-" : "", FormatBytes(over < 0 ? -over : over)),
             Percent(report.saved_over_caching_percent()),
             "(caching - arena) / caching");
  out += Rule('=');
  return out;
}

std::string MemoryMap(const Report& report, const MemoryMapOptions& options) {
  if (report.arena <= 0 || report.nodes.empty() || report.alignment < 1) {
    return "";
  }
  const std::vector<size_t> largest =
      Largest(report, std::clamp(options.letters, 0, 26));
  std::vector<char> sign_of(report.buffers.size());
  for (size_t i = 0; i < sign_of.size(); ++i) {
    sign_of[i] = SignOf(report.buffers[i].region);
  }
  for (size_t i = 0; i < largest.size(); ++i) {
    sign_of[largest[i]] = static_cast<char>('A' + i);
  }

  const int columns = static_cast<int>(
      std::min(static_cast<size_t>(options.columns), report.nodes.size()));
  Grid grid = Draw(report, sign_of, options.rows, columns);
  std::string out;
  for (int row = grid.rows - 1; row >= 0; --row) {
    // The address of the row's lower edge.
    const auto edge =
        static_cast<Bytes>(static_cast<double>(report.arena) * row / grid.rows);
    out += StrCat(PadLeft(FormatBytes(edge), kMarginWidth), " |");
    for (int column = 0; column < columns; ++column) {
      out += grid.at(row, column);
    }
    out += '\n';
  }
  out += StrCat(std::string(kMarginWidth, ' '), " +",
                std::string(static_cast<size_t>(columns), '-'), '\n');
  const std::string end = StrCat(report.nodes.size());
  const size_t axis = static_cast<size_t>(columns);
  out += StrCat(PadLeft("time", kMarginWidth), "  ",
                end.size() + 1 < axis ? StrCat("0", PadLeft(end, axis - 1))
                                      : StrCat("0 to ", end),
                '\n');

  out += '\n';
  const auto shown = [&](char sign) {
    return std::ranges::find(grid.signs, sign) != grid.signs.end();
  };
  for (const size_t i : largest) {
    if (!shown(sign_of[i])) continue;
    const ReportBuffer& buffer = report.buffers[i];
    out += StrCat("  ", sign_of[i], "  ", PadRight(buffer.name, 34),
                  PadLeft(FormatBytes(buffer.size), 11), "  ",
                  PadRight(Interval(buffer.lower, buffer.upper), 14), ' ',
                  RegionName(buffer.region), '\n');
  }
  std::string others;
  for (const char sign : std::string_view("wsi+~.")) {
    if (!shown(sign)) continue;
    others +=
        StrCat(others.empty() ? "  " : "; ", sign, " ", SignMeaning(sign));
  }
  return out + others + '\n';
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
