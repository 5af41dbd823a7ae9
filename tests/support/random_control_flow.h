#ifndef STOWAGE_TESTS_SUPPORT_RANDOM_CONTROL_FLOW_H_
#define STOWAGE_TESTS_SUPPORT_RANDOM_CONTROL_FLOW_H_

// Random graphs with loops and branches in one another, and loops undone.
//
//   const Graph graph = MakeRandomControlFlow(seed);
//   const Graph plain = Unrolled(graph);  // the same values, without loops

#include <cstdint>

#include "ir/graph.h"

namespace stowage::testing {

/// A forward graph of a seed, with the scalar output "loss" and outputs "y0", ...:
/// carried values that are swapped, handed on as they are, or never read; sliced views;
/// sums; loops without anything carried; branches that return an operand, that read
/// what others do not, and in which what they are handed dies, or does not, being handed
/// in twice or a part of something; up to three deep. Values stay bounded. Differentiable
/// without `branches`, up to where comparisons choose. Iterations are multiples of
/// `iterations_of`, four times that at most.
Graph MakeRandomControlFlow(uint64_t seed, bool branches = true,
                            int64_t iterations_of = 1);

/// `graph` with the body of every loop once for each iteration, also in bodies of branches.
Graph Unrolled(const Graph& graph);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RANDOM_CONTROL_FLOW_H_
