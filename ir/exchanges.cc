#include "ir/exchanges.h"

#include <algorithm>

#include "base/index.h"

namespace stowage {
namespace {

// The first node behind `node` that reads what it makes; else `none`.
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
