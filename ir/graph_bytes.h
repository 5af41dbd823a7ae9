#ifndef STOWAGE_IR_GRAPH_BYTES_H_
#define STOWAGE_IR_GRAPH_BYTES_H_

// Serializes graphs to a binary form for caches. The form is compact and fast to read, but later
// versions may not be able to read it. The text form (ir/text.h) is for people and for files that
// later versions must read. A type, a list of attributes or a name that occurs several times is
// written once. An operand is stored as the distance from the node's first result back to the
// operand.
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

/// Returns the binary form of `graph`. Linear in its size.
std::string ToBytes(const Graph& graph);

/// Parses the output of ToBytes and verifies the graph (ir/verify.h). Never aborts or reads past
/// the end of `bytes`. Returns kInvalidArgument if the bytes are invalid, if the graph is invalid,
/// or if the graph has a custom op that the program has not defined. The message states the offset
/// of the first invalid byte or the property that the graph violates. Corrupt bytes that form
/// another valid graph are not detected, so a cache must also check a digest. `depth` is the number
/// of bodies in which the graph is nested, at most kMaxBodyDepth (ir/bodies.h).
Result<Graph> GraphFromBytes(std::string_view bytes, int depth = 0);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_BYTES_H_
