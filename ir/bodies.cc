#include "ir/bodies.h"

namespace stowage {

std::span<const std::shared_ptr<const Graph>> BodiesOf(const Node& node) {
  if (node.op != OpKind::kLoop && node.op != OpKind::kCond) return {};
  return node.attrs.Graphs("bodies");
}

int64_t IterationsOf(const Node& node) {
  return node.op == OpKind::kLoop ? node.attrs.Int("iterations") : 1;
}

LoopParts PartsOfLoop(const Attrs& attrs, size_t operands) {
  LoopParts parts{.body = *attrs.Graphs("bodies").front()};
  parts.iterations = attrs.Int("iterations");
  parts.reverse = attrs.Int("reverse") != 0;
  parts.carried = static_cast<size_t>(attrs.Int("carried"));
  parts.sliced = static_cast<size_t>(attrs.Int("sliced"));
  parts.summed = static_cast<size_t>(attrs.Int("summed"));
  parts.whole = operands - parts.carried - parts.sliced;
  parts.stacked = parts.body.outputs().size() - parts.handed_on();
  return parts;
}

LoopParts PartsOfLoop(const Node& node) {
  return PartsOfLoop(node.attrs, node.inputs.size());
}

std::vector<ValueId> LeavesOf(const Graph& body) {
  std::vector<ValueId> leaves;
  for (ValueId id = 0; id < body.num_values(); ++id) {
    if (body.value(id).is_leaf()) leaves.push_back(id);
  }
  return leaves;
}

}  // namespace stowage
