#ifndef STOWAGE_TESTS_SUPPORT_OFFLOAD_VALUES_IN_BODIES_H_
#define STOWAGE_TESTS_SUPPORT_OFFLOAD_VALUES_IN_BODIES_H_

// Graphs whose bodies keep something in the host's memory.
//
// What, and between which of its readers, is drawn by lot, on purpose: not what the optimization
// would choose (planner/fit/offload/offload.h), which moves whatever waits, and of a body
// without a gradient nothing. So what plans, judges and runs such bodies is tested on more
// than the optimization ever makes.
//
//   const Graph graph = OffloadValuesInBodies(MakeRandomControlFlow(seed), seed);
//   CHECK(fit::FindHostUse(graph).values > 0);  // of most seeds

#include <cstdint>

#include "ir/graph.h"

namespace stowage::testing {

/// `graph` with about half of what its bodies make, at any depth, and read later there, in
/// the host's memory from one that reads it to another. It computes the same.
Graph OffloadValuesInBodies(const Graph& graph, uint64_t seed);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_OFFLOAD_VALUES_IN_BODIES_H_
