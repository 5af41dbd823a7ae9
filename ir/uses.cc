#include "ir/uses.h"

#include <numeric>

#include "ir/op_def.h"
#include "ir/shape.h"

namespace stowage {

namespace {

// Of a node that is at work: its operands may lie in one root.
void AddOnce(NodeId node, std::vector<NodeId>* nodes) {
  if (nodes->empty() || nodes->back() != node) nodes->push_back(node);
}

}  // namespace

Uses::Uses(const Graph& graph, const Layouts& layouts)
    : of_(Index(graph.num_values())),
      content_(Index(graph.num_values())),
      overwriter_(Index(graph.num_values()), kNoNode) {
  std::iota(content_.begin(), content_.end(), 0);
  const auto at = [&](ValueId id) -> UsesOfRoot& {
    return of_[Index(layouts[Index(id)].root)];
  };
  for (NodeId n = 0; n < graph.num_nodes(); ++n) {
    const Node& node = graph.node(n);
    const OpDef& def = GetOpDef(node.op);
    for (const ValueId input : node.inputs) {
      UsesOfRoot& root = at(input);
      AddOnce(n, &root.uses);
      root.last_use = n;
      if (def.is_view()) continue;
      AddOnce(n, &root.readers);
      if (node.phase == Phase::kForward &&
          root.forward_readers + 1 == root.readers.size()) {
        root.forward_readers = root.readers.size();
      }
    }
    for (const ValueId result : node.results) at(result).last_use = n;
    for (size_t r = 0; r < Index(def.updates); ++r) {
      overwriter_[Index(content_[Index(node.inputs[r])])] = n;
    }
    if (!def.is_view()) continue;
    for (const ValueId result : node.results) {
      content_[Index(result)] = content_[Index(node.inputs[0])];
    }
  }
  for (const GraphOutput& output : graph.outputs()) {
    at(output.value).is_output = true;
  }
}

InPlace::InPlace(const Graph& graph, const Layouts& layouts, const Node& node) {
  const OpDef& def = GetOpDef(node.op);
  const ValueId result = node.results[0];
  if (layouts[Index(result)].root != result) return;
  const Bytes bytes = graph.value(result).type.bytes();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!def.may_overwrite_operand(i)) continue;
    const TensorType& type = graph.value(node.inputs[i]).type;
    const Layout& layout = layouts[Index(node.inputs[i])];
    if (type.bytes() == bytes &&
        graph.value(layout.root).type.bytes() == bytes &&
        layout.byte_offset == 0 && IsContiguous(type.shape, layout.strides)) {
      operands_ |= uint32_t{1} << i;
    }
  }
}

}  // namespace stowage
