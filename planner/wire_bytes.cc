#include "planner/wire_bytes.h"

#include <algorithm>
#include <cstdint>

#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/rank_blocks.h"

namespace stowage {
namespace {

Bytes WireBytes(const Graph& graph, const Node& node) {
  if (!GetOpDef(node.op).collective) return 0;
  const int64_t ranks = node.attrs.Int("ranks");
  const auto bytes_of = [&](ValueId id) {
    return graph.value(id).type.bytes();
  };
  // What rank 0, whose block is none of the short ones, keeps of what it has, or gives to
  // each of the others.
  switch (node.op) {
    case OpKind::kAllReduce: {
      const TensorType& whole = graph.value(node.inputs[0]).type;
      const Bytes block =
          RankBlock(whole.shape.num_elements(), ranks, 1) * SizeOf(whole.dtype);
      return whole.bytes() - block + (ranks - 1) * block;
    }
    case OpKind::kReduceScatter: {
      const Bytes whole = bytes_of(node.inputs[0]);
      return whole - std::min(whole, bytes_of(node.results[0]));
    }
    case OpKind::kAllGather:
    case OpKind::kAllGatherUpdate: {
      const Bytes whole = bytes_of(node.results[0]);
      return (ranks - 1) * std::min(whole, bytes_of(node.inputs.back()));
    }
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
