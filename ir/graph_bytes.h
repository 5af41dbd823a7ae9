#ifndef STOWAGE_IR_GRAPH_BYTES_H_
#define STOWAGE_IR_GRAPH_BYTES_H_

// The form of a graph for caches: compact, and quick to read, where the text form
// (ir/text.h) is for people and for files that outlive a version. Names, types and
// attributes stand once, where they come first; operands are distances back.
//
//   const std::string bytes = ToBytes(graph);
//   Equal(graph, *GraphFromBytes(bytes));
//
// Graphs that are not equal never have the same bytes.

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// `graph` in the form above. Linear in its size.
std::string ToBytes(const Graph& graph);

/// Reads what ToBytes wrote and verifies it (ir/verify.h); no bytes make it abort
/// or read past their end. Errors, kInvalidArgument, name the byte or the claim of
/// the graph that does not hold. Whether a change made another good graph of it,
/// only a digest can tell. `depth` is in how many nodes the graph stands, of which
/// kMaxBodyDepth (ir/bodies.h) is the most.
Result<Graph> GraphFromBytes(std::string_view bytes, int depth = 0);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_BYTES_H_
