#ifndef STOWAGE_REPORT_HTML_H_
#define STOWAGE_REPORT_HTML_H_

// Writes a plan as an interactive HTML page. The page shows a map of the arena over time,
// colored by kind of buffer, with zoom, search and pins. The live bytes are drawn below the
// map, and tables list the buffers and figures. The page is one file that needs no network.
// It can also show several programs over one arena side by side, compare two plans, and
// draw the losses of a run.
//
//   Write("step.html", ToHtml({.title = "gpt-nano",
//                              .programs = {DescribeProgram("step", graph, plan)}}));
//
// The page shows the figures of report/numbers.h. For each buffer, it shows the kind, the
// values in the buffer over time, the nodes that read them, and the user's source line of
// each value:
//
//   std::vector<BufferDetails> details = MakeDetails(graph, plan);
//   details[3].kind;                   // kSaved
//   details[3].values.front().source;  // nn/models/texts.cc:63
//
// The skeleton, style and script of the page are report/page.html, page.css and page.js.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "report/numbers.h"

namespace stowage {

/// The kind of a buffer. If several values use the buffer one after another, it is the kind
/// of the value that uses it longest.
///
///   - kSaved: computed in forward and read in a later phase, or reloaded in backward
///   - kGradients: computed in backward
///   - kRecomputed: computed a second time in backward instead of being saved
///   - kState: optimizer states, also if they are reloaded for the update
///   - kTemporary: any other result
enum class BufferKind : uint8_t {
  kWeights,
  kState,
  kInputs,
  kSaved,
  kGradients,
  kRecomputed,
  kTemporary,
  kScratch,
  kHost,
};
inline constexpr BufferKind kBufferKinds[] = {
    BufferKind::kWeights,   BufferKind::kState,     BufferKind::kInputs,
    BufferKind::kSaved,     BufferKind::kGradients, BufferKind::kRecomputed,
    BufferKind::kTemporary, BufferKind::kScratch,   BufferKind::kHost,
};
/// Returns one word, which is also the name of the color: "weights", "gradients".
std::string_view BufferKindName(BufferKind kind);

/// A value that owns its bytes.
struct ValueDetails {
  std::string name;
  std::string type;       // "f32(4, 64)"
  NodeId made = kNoNode;  // The producer, or kNoNode for a leaf.
  SourceLoc source;
};

struct BufferDetails {
  BufferKind kind = BufferKind::kTemporary;
  /// In the order of time. Empty for workspace.
  std::vector<ValueDetails> values;
  std::vector<NodeId> readers;  // Readers of any value, by time.
};

/// Returns the details of each buffer of `plan`, in order. `plan` must be for `graph`
/// (CheckPlanIsFor). Linear in values, operands and buffers, except for sorting readers.
std::vector<BufferDetails> MakeDetails(const Graph& graph, const Plan& plan);

/// The data of one program on a page.
struct PageProgram {
  std::string name;
  Report report;
  std::vector<BufferDetails> details;   // Per buffer of `report`.
  std::vector<SourceLoc> node_sources;  // Per node of `report`.
};

/// Returns the data of one program. `plan` must be for `graph` (CheckPlanIsFor). Linear.
PageProgram DescribeProgram(std::string name, const Graph& graph,
                            const Plan& plan);

struct PageLoss {
  int64_t step = 0;  // Counted from 1.
  double loss = 0;
};

struct Page {
  std::string title;
  std::vector<PageProgram> programs = {};  // Over one arena, unless `compares`.
  /// True for two plans with separate arenas.
  bool compares = false;
  std::optional<Bytes> budget = {};
  std::vector<PageLoss> losses = {};  // The losses of a run, by step.
  std::optional<double> held_out_loss = {};
};

/// Returns the contents of the HTML file. Linear. A file has about 350 bytes per buffer and
/// 150 bytes per node.
std::string ToHtml(const Page& page);

}  // namespace stowage

#endif  // STOWAGE_REPORT_HTML_H_
