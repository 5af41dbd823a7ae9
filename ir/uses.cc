#include "ir/uses.h"

#include <algorithm>
#include <numeric>

#include "base/bytes.h"
#include "ir/op_def.h"
#include "ir/tensor_type.h"

namespace stowage {
namespace {

// Appends the node being visited, unless another operand in the same root has done so.
void AddOnce(NodeId node, std::vector<NodeId>* nodes) {
  if (nodes->empty() || nodes->back() != node) nodes->push_back(node);
}

// The first node after `node` that reads one of its results; else `none`.
NodeId FirstReader(const Graph& graph, const Uses& uses, const Layouts& layouts,
                   NodeId node, NodeId none) {
  NodeId first = none;
  for (const ValueId result : graph.node(node).results) {
    const auto readers = uses.readers(layouts[Index(result)].root);
    const auto reader = std::ranges::upper_bound(readers, node);
    if (reader != readers.end()) first = std::min(first, *reader);
  }
  return first;
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

bool IsExchange(OpKind op) {
  switch (op) {
    case OpKind::kAllReduce:
    case OpKind::kReduceScatter:
    case OpKind::kAllGather:
    case OpKind::kAllGatherUpdate:
      return true;
    default:
      return false;
  }
}

std::vector<Exchange> ExchangesOf(const Graph& graph, const Uses& uses,
                                  const Layouts& layouts) {
  std::vector<Exchange> exchanges;
  const NodeId end = graph.num_nodes();
  for (NodeId n = 0; n < end; ++n) {
    if (!IsExchange(graph.node(n).op)) continue;
    if (std::ssize(exchanges) >= kExchangesUnderWay) {
      NodeId& lands = (exchanges.end() - kExchangesUnderWay)->lands;
      lands = std::min(lands, n);
    }
    exchanges.push_back({n, FirstReader(graph, uses, layouts, n, end)});
  }
  return exchanges;
}

}  // namespace stowage
