#ifndef STOWAGE_IR_LAYOUT_H_
#define STOWAGE_IR_LAYOUT_H_

// Computes the layout of each value, and inserts the copies that kernels need for operands with
// unsupported strides.
//
// The root of a view is the value that owns the view's bytes. The layout of a view states the root,
// the byte offset within the root, and the strides. A value that owns its bytes is its own root,
// contiguous and at offset 0. The result of an update op has the root of the value that it updates.
//
//   Layouts layouts = ComputeLayouts(graph);
//   layouts[v].root;  layouts[v].byte_offset;  layouts[v].strides;
//
// A graph is legal if no operand needs such a copy. Legalize inserts a `copy` exactly where a
// kernel does not accept an operand's strides or where strides cannot express a reshape.
// Elementwise kernels accept any strides, and matmuls accept any matrix with one unit stride, so a
// transposed operand or a packed qkv projection needs no copy. GraphBuilder::Finish calls Legalize,
// and GraphFromBytes rejects graphs that are not legal, so every finished Graph is legal.

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

/// Returns the layouts of all values. Requires `IsLegal(graph)`. Linear in the size of the graph.
Layouts ComputeLayouts(const Graph& graph);

/// The storage of the types and names to which an OpArgs (ir/op_def.h) refers.
struct OpArgsStorage {
  std::vector<TensorType> types;
  std::vector<std::string_view> names;
};
/// Returns the arguments of `node` for the functions of its OpDef. They refer to `graph`, `node`
/// and `storage`. The content of `storage` is replaced.
OpArgs MakeOpArgs(const Graph& graph, const Node& node, OpArgsStorage* storage);

/// NodeFlops returns the number of floating-point operations of a node, and GraphFlops returns the
/// number for all nodes of a graph. A loop counts all its iterations, and a cond counts only its
/// most expensive body.
double NodeFlops(const Graph& graph, const Node& node);
double GraphFlops(const Graph& graph);

/// Returns `graph` with the copies that make it legal. A value that several nodes need in
/// contiguous form is copied once. Linear in the size of the graph.
Graph Legalize(Graph graph);

/// Returns whether Legalize would return `graph` unchanged.
bool IsLegal(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_LAYOUT_H_
