#ifndef STOWAGE_TESTS_SUPPORT_GRAPH_PEER_H_
#define STOWAGE_TESTS_SUPPORT_GRAPH_PEER_H_

// Gives tests access to the private fields of a Graph. A test can break one field of a valid
// graph and check that Verify reports it.
//
//   Graph graph = *ParseGraph(text);
//   GraphTestPeer::Nodes(graph)[1].inputs[0] = 7;
//   CHECK_FALSE(Verify(graph).ok());

#include <vector>

#include "ir/graph.h"

namespace stowage {

struct GraphTestPeer {
  static std::vector<ValueInfo>& Values(Graph& graph) {
    return graph.Own().values;
  }
  static std::vector<Node>& Nodes(Graph& graph) { return graph.Own().nodes; }
  static std::vector<GraphOutput>& Outputs(Graph& graph) {
    return graph.Own().outputs;
  }
  static auto& ByName(Graph& graph) { return graph.Own().by_name; }
};

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_GRAPH_PEER_H_
