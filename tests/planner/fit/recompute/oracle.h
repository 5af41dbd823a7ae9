#ifndef STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_ORACLE_H_
#define STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_ORACLE_H_

// The fewest extra operations with which a small training step can be run in so
// many bytes: over all schedules that run its nodes in their order and, between
// them, any forward node again, any number of times, as Checkmate (Jain et al.,
// MLSys 2020) has it. A shortest path over (nodes run, forward values that are
// there); shares nothing with the planner. Results are never written in place
// here, and bytes are counted live, not packed.

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "ir/graph.h"

namespace stowage::testing {

/// Nothing when no schedule fits. `budget` is for what is packed: activations,
/// gradients and outputs. Precondition: at most 16 forward values own bytes.
std::optional<double> LeastExtraFlops(const Graph& graph, Bytes budget);

/// A forward graph of 4 to 7 layers with output "loss", of a kind that the seed
/// chooses: a chain, a U-net, a residual tower, parallel branches.
Graph MakeSmallNet(uint64_t seed);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_ORACLE_H_
