#ifndef STOWAGE_IR_EXCHANGES_H_
#define STOWAGE_IR_EXCHANGES_H_

// What is under way between ranks while a step goes on.
//
// An exchange is a node that sends values to other ranks and waits for theirs. It is
// begun where it stands in the order, and a backend may run what follows while its bytes
// travel. It *lands* at the first node that reads what it makes; at the latest where the
// kExchangesUnderWay-th after it is begun, or behind the last node. Until then its
// operands, its results and its scratch are its own. Exchanges land in the order in which
// they were begun, which is the same on every rank.
//
//   for (const Exchange& each : ExchangesOf(graph, uses, layouts)) {
//     Keep(each.node, each.lands);
//   }

#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_kind.h"
#include "ir/uses.h"

namespace stowage {

/// So many may be under way; enough that a bucket of gradients is, and with split
/// states the weights of the one before it.
inline constexpr int kExchangesUnderWay = 8;

/// Whether nodes of `op` are exchanges. own_block, which every rank runs as well, is
/// none: nothing is sent.
bool IsExchange(OpKind op);

struct Exchange {
  NodeId node = kNoNode;
  NodeId lands = kNoNode;  // the number of nodes: behind the last
};

/// Those of `graph`, in order, without those of bodies. Linear in its nodes.
std::vector<Exchange> ExchangesOf(const Graph& graph, const Uses& uses,
                                  const Layouts& layouts);

}  // namespace stowage

#endif  // STOWAGE_IR_EXCHANGES_H_
