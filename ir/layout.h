#ifndef STOWAGE_IR_LAYOUT_H_
#define STOWAGE_IR_LAYOUT_H_

// Where values lie: every view resolved to its root.
//
// A value that owns bytes is its own root, contiguous, at offset 0. A view
// names the root it looks into, its byte offset there and its strides. The
// result of an update op has the root of the param or state it updates.
//
//   Layouts layouts = ComputeLayouts(graph);
//   layouts[v].root;  layouts[v].byte_offset;  layouts[v].strides;

#include <span>
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

/// Layouts of all values. Precondition: the graph is legal (see ir/legalize.h);
/// graphs made by builders, passes and ParseGraph are.
Layouts ComputeLayouts(const Graph& graph);

/// The operands of `node` as its OpDef's functions want them. The returned
/// views point into `graph` and into `storage`.
struct OpArgsStorage {
  std::vector<TensorType> types;
  std::vector<std::string_view> names;
};
OpArgs MakeOpArgs(const Graph& graph, const Node& node, OpArgsStorage* storage);

/// Floating-point operations of one node, of a whole graph: of a loop those of all its
/// iterations, of a cond those of the body that has most.
double NodeFlops(const Graph& graph, const Node& node);
double GraphFlops(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_LAYOUT_H_
