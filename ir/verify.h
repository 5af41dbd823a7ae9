#ifndef STOWAGE_IR_VERIFY_H_
#define STOWAGE_IR_VERIFY_H_

// Re-derives every property of a graph: inputs precede uses, values are in the order of their
// producers, every result type follows from its operands, names are unique, roles fit,
// kernels accept the strides of their operands, updates write whole params, states, fills or
// reloaded values in place, nothing reads an old content afterwards, and bodies
// (ir/bodies.h) return bytes of their own. Bodies were verified when they were built.
//
//   STOWAGE_RETURN_IF_ERROR(Verify(graph));
//
// Builders, passes and the parser call it on their results. It finds one user error, a model
// that reads a value after updating it; the other properties fail only by a bug in a pass.

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// The first property of `graph` that does not hold, as an error naming the node and both the
/// stated and the derived value. Linear in nodes and their operands.
Status Verify(const Graph& graph);

/// The two parts of Verify: the names of values and outputs, and all other properties. The
/// second requires that outputs are values of the graph.
Status VerifyNames(const Graph& graph);
Status VerifyNodes(const Graph& graph);

/// Whether every operand of `node` is in the memory that its op requires: host memory or the
/// arena. The error has no "[package]" prefix.
Status VerifyMemory(const Graph& graph, const Node& node);

}  // namespace stowage

#endif  // STOWAGE_IR_VERIFY_H_
