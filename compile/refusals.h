#ifndef STOWAGE_COMPILE_REFUSALS_H_
#define STOWAGE_COMPILE_REFUSALS_H_

// What of a graph cannot be written in C.
//
//   const std::vector<std::string> refused = RefusalsOf(graph);
//   // {"lstm of bf16 (2 nodes, the first makes \"h\")"}

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace stowage::compile {

/// One text for each kind of op, type or initial value, in the order of the graph; bodies
/// included. Empty: all of it can be written.
/// Params of `contents` do not begin with their Init.
std::vector<std::string> RefusalsOf(
    const Graph& graph,
    const std::map<std::string, std::string>& contents = {});

}  // namespace stowage::compile

#endif  // STOWAGE_COMPILE_REFUSALS_H_
