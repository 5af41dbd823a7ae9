#ifndef STOWAGE_IR_GRAPH_BYTES_H_
#define STOWAGE_IR_GRAPH_BYTES_H_

// Serializes graphs to a binary form for caches, which is compact and fast to read. The text form
// (ir/text.h) is for people and for files that must be readable by later versions. Types,
// attributes and other repeated strings are written once, where they first occur. An operand is
// stored as the backward distance to its value.
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
/// the end of `bytes`. If they are invalid, returns kInvalidArgument with the offset of the first
/// invalid byte or with the property that the graph violates. Corrupt bytes that form another valid
/// graph are not detected, so a cache must also check a digest. `depth` is the nesting depth of the
/// graph as a body, at most kMaxBodyDepth (ir/bodies.h).
Result<Graph> GraphFromBytes(std::string_view bytes, int depth = 0);

}  // namespace stowage

#endif  // STOWAGE_IR_GRAPH_BYTES_H_
