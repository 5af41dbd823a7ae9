#include "planner/wire_bytes.h"

#include <cstdint>

#include "ir/op_def.h"
#include "ir/op_kind.h"

namespace stowage {
namespace {

// Bytes of rank 0's block, which is none of the short ones.
Bytes BlockOf(const TensorType& whole, int64_t ranks) {
  const int64_t elements = whole.shape.num_elements();
  return ((elements - 1) / ranks + 1) * SizeOf(whole.dtype);
}

Bytes WireBytes(const Graph& graph, const Node& node) {
  if (!GetOpDef(node.op).collective) return 0;
  const int64_t ranks = node.attrs.Int("ranks");
  const bool sums =
      node.op == OpKind::kAllReduce || node.op == OpKind::kReduceScatter;
  const ValueId id = sums ? node.inputs[0] : node.results[0];
  const TensorType& whole = graph.value(id).type;
  const Bytes block = BlockOf(whole, ranks);
  const Bytes scattered = whole.bytes() - block;
  const Bytes gathered = (ranks - 1) * block;
  switch (node.op) {
    case OpKind::kAllReduce:
      return scattered + gathered;
    case OpKind::kReduceScatter:
      return scattered;
    case OpKind::kAllGather:
    case OpKind::kAllGatherUpdate:
      return gathered;
    default:
      return 0;
  }
}

}  // namespace

Bytes WireBytes(const Graph& graph) {
  Bytes bytes = 0;
  for (const Node& node : graph.nodes()) bytes += WireBytes(graph, node);
  return bytes;
}

}  // namespace stowage
