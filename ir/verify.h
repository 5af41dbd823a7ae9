#ifndef STOWAGE_IR_VERIFY_H_
#define STOWAGE_IR_VERIFY_H_

// Re-derives everything a graph claims: inputs precede uses, values stand in
// the order of their producers, every result type follows from its operands,
// names are unique, roles fit, kernels can take the strides they will see,
// updates write in place of whole params, states, fills or what was reloaded,
// nothing reads an old content afterwards, and bodies (ir/bodies.h) hand back bytes of
// their own. Bodies are graphs that have been verified when they were made.
//
//   STOWAGE_RETURN_IF_ERROR(Verify(graph));
//
// Builders, passes and the parser call it on what they make. A model that
// updates a value it goes on to read is a user's error and is found here; the
// other claims can fail only through a bug in a pass.

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// The first claim of `graph` that does not hold, as an error naming the node
/// and both the stated and the derived value. Linear in nodes and their
/// operands.
Status Verify(const Graph& graph);

/// Its two halves, for who wants both at once: what the names of values and outputs
/// mean, and all that is said of values and nodes. The second takes it that outputs
/// are values of the graph.
Status VerifyNames(const Graph& graph);
Status VerifyNodes(const Graph& graph);

/// Whether every operand of `node` lies in the memory where its op wants it: the
/// host's or the arena. The error says what to do, and begins with no room.
Status VerifyMemory(const Graph& graph, const Node& node);

}  // namespace stowage

#endif  // STOWAGE_IR_VERIFY_H_
