#ifndef STOWAGE_IR_VERIFY_H_
#define STOWAGE_IR_VERIFY_H_

// Verifies graphs. Verify checks the following properties:
// - Producers precede readers, and values are in the order of their producers.
// - The types of results follow from the operands, roles are valid, and names are unique.
// - Kernels accept the strides of their operands.
// - Updates write in place of a whole param, state, cache, fill, own block or reloaded value, or of
//   its updated content, and no later node reads the old content.
// - Outputs of bodies (ir/bodies.h) own their bytes. Bodies were verified when they were built.
//
//   STOWAGE_RETURN_IF_ERROR(Verify(graph));
//
// Builders, passes and the parser call it on their results. One of these errors can be a user's: a
// model that reads a value after updating it. The other properties are only violated by bugs in
// passes.

#include "base/result.h"
#include "ir/graph.h"

namespace stowage {

/// Returns kInvalidArgument for the first property that does not hold. The message states the node,
/// and both the actual and the expected value. Linear in the numbers of nodes and operands.
Status Verify(const Graph& graph);

/// The two steps of Verify. VerifyNames checks the outputs and the names of values and outputs.
/// VerifyNodes checks all other properties. It requires that outputs are values of the graph.
Status VerifyNames(const Graph& graph);
Status VerifyNodes(const Graph& graph);

/// Returns kInvalidArgument if an operand of `node` is not in the memory that the op requires, host
/// memory or the arena. The message does not begin with "[package]".
Status VerifyMemory(const Graph& graph, const Node& node);

}  // namespace stowage

#endif  // STOWAGE_IR_VERIFY_H_
