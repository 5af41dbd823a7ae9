#ifndef STOWAGE_REPORT_DETAILS_H_
#define STOWAGE_REPORT_DETAILS_H_

// Details of each buffer of a plan for the page (report/html.h): its kind, the values in
// it over time, the nodes that read them, and the user's source line of each. The figures
// are in numbers.h.
//
//   std::vector<BufferDetails> details = MakeDetails(graph, plan);
//   details[3].kind;                   // kSaved
//   details[3].values.front().source;  // nn/models/texts.cc:63

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
  NodeId made = kNoNode;  // for a leaf
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

// The arena as a character map: the y axis is the address, the x axis is time, with a
// letter for each of the largest buffers and one sign for all others.
//
//   400 B | .AAAA
//   300 B | .AAAA      A  h1     200 B  [1, 5)  activations
//   200 B | ioooo      B  ...
//   100 B | wwwww
//
// A cell is a range of addresses and times and shows the buffer that takes most of it;
// '.' if most of it is free.

struct MemoryMapOptions {
  int columns = 64;  // maximum number of cells: no more than there are nodes
  int rows = 24;
  int letters = 16;  // largest buffers that get a letter, at most 26
                     // (the legend omits those too small to be seen)
};

/// The map and its legend; lines of at most 80 characters with the default
/// options. Empty for an empty arena or schedule. O(cells covered by buffers).
std::string MemoryMap(const Report& report,
                      const MemoryMapOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_REPORT_DETAILS_H_
