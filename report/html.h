#ifndef STOWAGE_REPORT_HTML_H_
#define STOWAGE_REPORT_HTML_H_

// Writes a plan as an interactive HTML page. The page shows a map of the arena over time,
// colored by kind of buffer, with zoom, search and pins. The live bytes are drawn below the
// map, and tables list the buffers and figures. The page is one file that needs no network.
// A page can also show several programs that share an arena side by side, compare two plans, and
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

/// The kind of a buffer. If several values use the buffer one after another, this is the kind of
/// the value that uses it longest.
///
///   - kWeights: params
///   - kState: optimizer states, also if they are reloaded for the update
///   - kInputs: inputs, caches and the backend's reserve
///   - kSaved: values that are computed in the forward pass and read later, or are reloaded in the
///     backward pass
///   - kGradients: values that are computed in the backward pass
///   - kRecomputed: values that are computed a second time instead of being saved
///   - kTemporary: all other results
///   - kScratch: the workspace of a kernel
///   - kHost: buffers outside the arena
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
/// Returns the name of a kind in the page, such as "gradients".
std::string_view BufferKindName(BufferKind kind);

/// A value that owns its bytes, that is, not a view.
struct ValueDetails {
  std::string name;
  std::string type;       // "f32(4, 64)"
  NodeId made = kNoNode;  // The producer, or kNoNode for a leaf.
  SourceLoc source;
};

struct BufferDetails {
  BufferKind kind = BufferKind::kTemporary;
  /// The values in the buffer, in the order of time. Empty for workspace.
  std::vector<ValueDetails> values;
  /// The nodes that read a value in the buffer or use the workspace, in the order of time.
  std::vector<NodeId> readers;
};

/// Returns the details of each buffer of `plan`, in the order of Plan::buffers. `plan` must be for
/// `graph` (CheckPlanIsFor). Linear in the number of values, operands and buffers, except for
/// sorting readers.
std::vector<BufferDetails> MakeDetails(const Graph& graph, const Plan& plan);

/// The data of one program on a page.
struct PageProgram {
  std::string name;
  Report report;
  std::vector<BufferDetails> details;   // One per buffer of `report`.
  std::vector<SourceLoc> node_sources;  // One per node of `report`.
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
  /// The programs, which share one arena unless `compares` is set.
  std::vector<PageProgram> programs = {};
  /// If true, the page compares two plans, which have separate arenas.
  bool compares = false;
  std::optional<Bytes> budget = {};
  std::vector<PageLoss> losses = {};  // The losses of a run, by step.
  std::optional<double> held_out_loss = {};
};

/// Returns the contents of the HTML file. If there are more than 2,000 losses, means of consecutive
/// steps are drawn. Linear. A file has about 350 bytes per buffer and 150 bytes per node.
std::string ToHtml(const Page& page);

}  // namespace stowage

#endif  // STOWAGE_REPORT_HTML_H_
