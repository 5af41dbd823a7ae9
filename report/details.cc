#include "report/details.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/graph_copy.h"
#include "ir/layout.h"
#include "ir/uses.h"
#include "planner/lifetimes.h"
#include "report/text.h"

namespace stowage {

namespace {

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

// Of the values that take over a buffer one from another, the one that has it for
// the longest.
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

namespace {

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

// How much of the cell [at, at + 1) of `cells`, over a length of `whole`, the
// range [begin, end) covers, between 0 and 1.
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

// Each cell shows what covers most of it: buffers that share a sign count
// together, and so does free space.
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

}  // namespace

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

}  // namespace stowage
