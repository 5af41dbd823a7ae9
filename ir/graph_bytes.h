#ifndef STOWAGE_IR_GRAPH_BYTES_H_
#define STOWAGE_IR_GRAPH_BYTES_H_

// The binary form of a graph, for caches: compact and fast to read. The text form (ir/text.h)
// is for people and for files that outlive a version. Names, types and attributes are written
// once, where they first occur; an operand is stored as its distance back to the value that it
// refers to.
//
//   const std::string bytes = ToBytes(graph);
//   Equal(graph, *GraphFromBytes(bytes));
//
// Different graphs have different bytes.

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// `graph` in the form above. Linear in its size.
std::string ToBytes(const Graph& graph);

/// Reads the output of ToBytes and verifies the graph (ir/verify.h); never aborts or reads
/// past the end. Error kInvalidArgument names the offset of the bad byte, or the
/// property that the graph violates.
/// A corruption that yields another valid graph is only detected by a digest. `depth` is the
/// nesting depth of the graph as a body, at most kMaxBodyDepth (ir/bodies.h).
Result<Graph> GraphFromBytes(std::string_view bytes, int depth = 0);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_BYTES_H_
