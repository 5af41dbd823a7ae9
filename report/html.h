#ifndef STOWAGE_REPORT_HTML_H_
#define STOWAGE_REPORT_HTML_H_

// A plan as an interactive page: the map of the arena over time, coloured by kind of
// buffer, with zoom, search and pin; live bytes below it; the buffers and figures as
// tables. It is one file that needs no network. Several programs over one arena are shown
// side by side, two plans are compared, and a run shows its losses.
//
//   Write("step.html", ToHtml({.title = "gpt-nano",
//                              .programs = {DescribeProgram("step", graph, plan)}}));
//
// The page draws the figures of numbers.h and, for each buffer, its kind, the values in it
// over time, the nodes that read them, and the user's source line of each:
//
//   std::vector<BufferDetails> details = MakeDetails(graph, plan);
//   details[3].kind;                   // kSaved
//   details[3].values.front().source;  // nn/models/texts.cc:63
//
// Its skeleton, style and script are report/page.html, page.css and page.js.

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

/// The kind of a buffer or, if several values reuse it in place, of the value with the
/// longest lifetime. kSaved: computed in forward, read in a later phase. kGradients:
/// computed in backward. kRecomputed: computed again there, instead of being saved.
/// kTemporary: any other result. A reloaded value is kSaved, or kState if an update reads
/// it.
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
/// One word, also the name of its colour: "weights", "gradients".
std::string_view BufferKindName(BufferKind kind);

/// A value that owns its bytes.
struct ValueDetails {
  std::string name;
  std::string type;       // "f32(4, 64)"
  NodeId made = kNoNode;  // its producer; kNoNode for a leaf
  SourceLoc source;
};

struct BufferDetails {
  BufferKind kind = BufferKind::kTemporary;
  std::vector<ValueDetails> values;  // by time; empty for scratch
  std::vector<NodeId> readers;       // of all values, each once, by time
};

/// For each buffer of `plan`, in its order. Precondition: CheckPlanIsFor. Linear in
/// values, operands and buffers, except for sorting readers.
std::vector<BufferDetails> MakeDetails(const Graph& graph, const Plan& plan);

/// One program over the arena.
struct PageProgram {
  std::string name;
  Report report;
  std::vector<BufferDetails> details;   // of report.buffers
  std::vector<SourceLoc> node_sources;  // of report.nodes
};

/// The page's data of one program. Precondition: CheckPlanIsFor. Linear.
PageProgram DescribeProgram(std::string name, const Graph& graph,
                            const Plan& plan);

struct PageLoss {
  int64_t step = 0;  // from 1
  double loss = 0;
};

struct Page {
  std::string title;
  std::vector<PageProgram> programs = {};  // over one arena, unless `compares`
  bool compares = false;                   // two plans, each with its own arena
  std::optional<Bytes> budget = {};
  std::vector<PageLoss> losses = {};  // of a run, by step
  std::optional<double> held_out_loss = {};
};

/// The file. Linear; about 350 bytes a buffer and 150 a node.
std::string ToHtml(const Page& page);

}  // namespace stowage

#endif  // STOWAGE_REPORT_HTML_H_
