#ifndef STOWAGE_IR_VERIFY_H_
#define STOWAGE_IR_VERIFY_H_

// Verifies graphs. Verify checks the following properties:
// - Producers precede readers, and values are in the order of their producers.
// - The types of results follow from the operands, roles are valid, and names are unique.
// - Operands are in the memory that the op requires, and outputs are in the arena.
// - The initial contents of params and states are valid for their types (Init, ir/graph.h).
// - Kernels accept the strides of their operands.
// - Updates write in place of a whole param, state or cache, a whole result of `fill`, `own_block`
//   or `reload`, or the updated content of one of these. No later node reads the old content.
// - Outputs of bodies (ir/bodies.h) own their bytes. Bodies were verified when they were built.
//
//   STOWAGE_RETURN_IF_ERROR(Verify(graph));
//
// Builders, passes and parsers call Verify on their results. A model can violate the properties of
// updates, initial contents and outputs. In a graph from a builder, the other properties are only
// violated because of a bug.

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// Returns kInvalidArgument for the first property that does not hold. The message states the node
/// or value, and what was expected. Linear in the numbers of nodes and operands.
Status Verify(const Graph& graph);

/// These functions are the two steps of Verify. VerifyNames checks the names of values, and the
/// names and values of outputs. VerifyNodes checks all other properties. It requires that outputs
/// are values of the graph.
Status VerifyNames(const Graph& graph);
Status VerifyNodes(const Graph& graph);

/// Returns kInvalidArgument if an operand of `node` is in host memory but the op requires it in the
/// arena, or vice versa. The message does not begin with "[package]".
Status VerifyMemory(const Graph& graph, const Node& node);

}  // namespace stowage

#endif  // STOWAGE_IR_VERIFY_H_
