#ifndef STOWAGE_TESTS_SUPPORT_INTERPRET_H_
#define STOWAGE_TESTS_SUPPORT_INTERPRET_H_

// The oracle: what a graph computes, by the plainest loops over the definitions
// of the ops, in double precision throughout. Every value, views included, is a
// vector of its own in row-major order; nothing is planned, reused, blocked or
// shared with the kernels. Integers and bools are doubles that hold them.
//
//   Tensors values = Interpret(graph, {{"x", {1, 2}}, {"w", {3, 4}}});
//   values["loss"][0];

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace stowage {

/// Elements by name, in row-major order.
using Tensors = std::map<std::string, std::vector<double>>;

/// Every value of `graph` by its name and every output by its own, given its
/// leaves. Casts to integers truncate; casts between float types change
/// nothing, so derivatives exist. An update's result is the new content; the
/// leaf keeps the old. A missing leaf, a wrong size or an index out of range
/// aborts.
Tensors Interpret(const Graph& graph, const Tensors& leaves);

/// After a step: puts into `leaves` what the graph's updates made of them.
void CarryOver(const Graph& graph, const Tensors& values, Tensors* leaves);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_INTERPRET_H_
