#ifndef STOWAGE_TESTS_SUPPORT_OFFLOAD_VALUES_IN_BODIES_H_
#define STOWAGE_TESTS_SUPPORT_OFFLOAD_VALUES_IN_BODIES_H_

// Graphs whose bodies offload values to the host.
//
// The values, and the readers between which they are offloaded, are random, unlike those of the
// memory optimization (planner/fit/offload/offload.h). So planning, validation and execution of
// such bodies are tested on more graphs than the optimization makes.
//
//   const Graph graph = OffloadValuesInBodies(MakeRandomControlFlow(seed), seed);
//   CHECK(fit::FindHostUse(graph).values > 0);  // of most seeds

#include <cstdint>

#include "ir/graph.h"

namespace stowage::testing {

/// `graph`, with about half of the values that are made and read in its bodies, at any depth,
/// offloaded between two of their readers. It computes the same.
Graph OffloadValuesInBodies(const Graph& graph, uint64_t seed);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_OFFLOAD_VALUES_IN_BODIES_H_
