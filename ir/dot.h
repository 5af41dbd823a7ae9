#ifndef STOWAGE_IR_DOT_H_
#define STOWAGE_IR_DOT_H_

// A picture of a graph, as Graphviz text. Nodes are boxes coloured by phase, in
// execution order; nodes that only make views are dashed. Leaves are ellipses,
// outputs plain text, and every edge carries the name and type of its value.
//
//   WriteFile("mlp.dot", ToDot(graph));  // then: dot -Tsvg mlp.dot

#include <string>

#include "ir/graph.h"

namespace stowage {

/// `graph` as a Graphviz digraph.
std::string ToDot(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_IR_DOT_H_
