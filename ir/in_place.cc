#include "ir/in_place.h"

#include "ir/shape.h"

namespace stowage {

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
