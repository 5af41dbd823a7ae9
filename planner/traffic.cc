#include <algorithm>

#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "planner/placement.h"

namespace stowage {
namespace {

// The bytes of a value's distinct elements.
Bytes DistinctBytes(const TensorType& type, const Strides& strides) {
  Bytes bytes = SizeOf(type.dtype);
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    if (strides[axis] != 0) bytes *= type.shape[axis];
  }
  return bytes;
}

}  // namespace

NodeTraffic TrafficOf(const Graph& graph, const Layouts& layouts,
                      const Node& node, Bytes workspace) {
  NodeTraffic traffic;
  Bytes written = 0;
  for (const ValueId result : node.results) {
    const Bytes bytes = graph.value(result).type.bytes();
    traffic.results.push_back(static_cast<double>(bytes));
    written += bytes;
  }
  for (const ValueId input : node.inputs) {
    const Bytes bytes =
        DistinctBytes(graph.value(input).type, layouts[Index(input)].strides);
    traffic.operands.push_back(static_cast<double>(bytes));
  }
  // A gather reads the rows of its table that it takes.
  if (node.op == OpKind::kGather || node.op == OpKind::kQuantizedGather ||
      node.op == OpKind::kTakeAlongAxis) {
    const Bytes table = graph.value(node.inputs[0]).type.bytes();
    traffic.operands[0] = static_cast<double>(std::min(table, written));
  }
  traffic.workspace = 2.0 * static_cast<double>(workspace);
  return traffic;
}

}  // namespace stowage
