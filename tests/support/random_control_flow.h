#ifndef STOWAGE_TESTS_SUPPORT_RANDOM_CONTROL_FLOW_H_
#define STOWAGE_TESTS_SUPPORT_RANDOM_CONTROL_FLOW_H_

// Random graphs of nested loops and branches, and the unrolling of loops.
//
//   const Graph graph = MakeRandomControlFlow(seed);
//   const Graph plain = Unrolled(graph);  // the same values, without loops

#include <cstdint>

#include "ir/graph.h"

namespace stowage::testing {

/// A forward graph of a seed, with the scalar output "loss" and outputs "y0", ...:
/// carries that are swapped, passed on unchanged, or never read; scan inputs that are views;
/// sums; loops without carries; branches that return an operand, that read values which others
/// do not, and whose operands die in them, or do not, being passed twice or part of a larger
/// value; up to three levels deep. Values stay bounded. Differentiable
/// without `branches`, up to where comparisons choose. Iterations are multiples of
/// `iterations_of`, four times that at most.
Graph MakeRandomControlFlow(uint64_t seed, bool branches = true,
                            int64_t iterations_of = 1);

/// `graph` with the body of every loop once for each iteration, also in bodies of branches.
Graph Unrolled(const Graph& graph);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RANDOM_CONTROL_FLOW_H_
