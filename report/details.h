#ifndef STOWAGE_REPORT_DETAILS_H_
#define STOWAGE_REPORT_DETAILS_H_

// What each buffer of a plan is for: its kind, the values that lie in it one after
// another, the nodes that read them, and the user's source line of each. What
// only the page of a plan tells (report/html.h); the figures are numbers.h's.
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

/// What a buffer is for or, where values take it over one from another, what the
/// one is for that has it the longest. kSaved: made in forward, read in a later
/// phase. kGradients: made in backward. kRecomputed: made again there, instead of being
/// saved. kTemporary: any other result. What is reloaded from the host is kSaved, or
/// kState where an update wants it.
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
  NodeId made = kNoNode;  // of a leaf
  SourceLoc source;
};

struct BufferDetails {
  BufferKind kind = BufferKind::kTemporary;
  std::vector<ValueDetails> values;  // by time; none in scratch
  std::vector<NodeId> readers;       // of all of them, each once, by time
};

/// Of each buffer of `plan`, in its order. Precondition: CheckPlanIsFor. Linear in
/// values, operands and buffers, but for sorting readers.
std::vector<BufferDetails> MakeDetails(const Graph& graph, const Plan& plan);

// The arena as an image of characters: addresses upwards, time to the right,
// a letter for each of the largest buffers and a sign for all others.
//
//   400 B | .AAAA
//   300 B | .AAAA      A  h1     200 B  [1, 5)  activations
//   200 B | ioooo      B  ...
//   100 B | wwwww
//
// A cell stands for a range of addresses over a range of times and shows what
// takes most of it; '.' where most of it is free.

struct MemoryMapOptions {
  int columns = 64;  // of cells, at most: no more than there are nodes
  int rows = 24;
  int letters = 16;  // largest buffers that get a letter, at most 26
                     // (the legend leaves out those too small to be seen)
};

/// The map and its legend; lines of at most 80 characters with the default
/// options. Empty for an empty arena or schedule. O(cells covered by buffers).
std::string MemoryMap(const Report& report,
                      const MemoryMapOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_REPORT_DETAILS_H_
