#ifndef STOWAGE_TESTS_SUPPORT_RANDOM_CONTROL_FLOW_H_
#define STOWAGE_TESTS_SUPPORT_RANDOM_CONTROL_FLOW_H_

// Builds random graphs of nested loops and branches, and unrolls loops.
//
//   const Graph graph = MakeRandomControlFlow(seed);
//   const Graph plain = Unrolled(graph);  // the same values, without loops

#include <cstdint>

#include "ir/graph.h"

namespace stowage::testing {

/// Returns a random forward graph with the scalar output "loss" and the outputs "y0" and "y1".
/// Loops and branches are nested up to three levels deep, and values stay bounded.
///
/// Some carries of loops are swapped, passed on unchanged, or never read. Some loops have no
/// carries, some sum values over their iterations, and some scan inputs are views. Some branches
/// return an operand, or read values that the other branches of the same cond do not read. Some
/// operands die in a branch. Others outlive it because they are passed twice or are part of a
/// larger value.
///
/// The graph is differentiable if `branches` is false. Every trip count is `iterations_of` times
/// 1, 2, 3 or 4.
Graph MakeRandomControlFlow(uint64_t seed, bool branches = true,
                            int64_t iterations_of = 1);

/// Returns `graph` with every loop replaced by one copy of its body per iteration, also in the
/// bodies of branches.
Graph Unrolled(const Graph& graph);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_RANDOM_CONTROL_FLOW_H_
