#ifndef STOWAGE_IR_LAYOUT_H_
#define STOWAGE_IR_LAYOUT_H_

// The positions of values: every view resolved to its root.
//
// A value that owns bytes is its own root, contiguous, at offset 0. A view has the root
// that it looks into, its byte offset there and its strides. The result of an update op has
// the root of the param or state that it updates.
//
//   Layouts layouts = ComputeLayouts(graph);
//   layouts[v].root;  layouts[v].byte_offset;  layouts[v].strides;
//
// Legalize inserts a `copy` exactly where a kernel does not accept an operand's strides or
// strides cannot express a reshape. Elementwise kernels accept any strides and matmuls any
// matrix with one unit stride, so a transposed operand or a packed qkv projection costs no
// copy. GraphBuilder::Finish, the autodiff passes and ParseGraph call it, so every finished
// Graph is legal.

#include <vector>

#include "ir/graph.h"
#include "ir/op_def.h"

namespace stowage {

struct Layout {
  ValueId root = 0;
  Bytes byte_offset = 0;
  Strides strides;  // in elements
};

using Layouts = std::vector<Layout>;  // indexed by ValueId

/// Layouts of all values. Precondition: IsLegal(graph). Linear.
Layouts ComputeLayouts(const Graph& graph);

/// The arguments of `node` for its OpDef's functions. The returned views point into `graph`
/// and into `storage`.
struct OpArgsStorage {
  std::vector<TensorType> types;
  std::vector<std::string_view> names;
};
OpArgs MakeOpArgs(const Graph& graph, const Node& node, OpArgsStorage* storage);

/// Floating-point operations of one node and of a graph: a loop counts all its iterations,
/// a cond its most expensive body.
double NodeFlops(const Graph& graph, const Node& node);
double GraphFlops(const Graph& graph);

/// `graph` with the copies that it needs. A value that several nodes need contiguous is
/// copied once. Linear.
Graph Legalize(Graph graph);

/// Whether Legalize would change nothing.
bool IsLegal(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_LAYOUT_H_
