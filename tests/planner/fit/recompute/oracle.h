#ifndef STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_ORACLE_H_
#define STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_ORACLE_H_

// Computes the minimum recomputation cost of a small training step within a
// budget, by exhaustive search, for tests of the recompute optimization.
//
// The search covers all schedules that run the nodes in their order and, in
// between, recompute any forward nodes any number of times, as in Checkmate (Jain
// et al., MLSys 2020). It finds a shortest path over states. A state consists of
// the number of nodes that have run and the set of forward values that are live.
// The search shares no code with the planner. Results are never written in place,
// and the budget limits the sum of live bytes, without packing.

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "ir/graph.h"

namespace stowage::testing {

/// Returns the minimum number of extra operations (FLOPs), or nullopt if no
/// schedule fits. `budget` limits the bytes of activations, gradients and outputs.
/// `graph` must have at most 16 forward values that are neither views nor outputs.
std::optional<double> LeastExtraFlops(const Graph& graph, Bytes budget);

/// Returns a forward graph of 4 to 7 layers with the output "loss". The seed
/// selects a chain, a U-net, a residual tower or parallel branches.
Graph MakeSmallNet(uint64_t seed);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_ORACLE_H_
