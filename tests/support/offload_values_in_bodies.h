#ifndef STOWAGE_TESTS_SUPPORT_OFFLOAD_VALUES_IN_BODIES_H_
#define STOWAGE_TESTS_SUPPORT_OFFLOAD_VALUES_IN_BODIES_H_

// Offloads random values in the bodies of loops and branches to the host.
//
// Both the values and the readers between which they are offloaded are random. The offload
// optimization (planner/fit/offload/offload.h) creates only some of these graphs. The random
// graphs therefore test planning, validation and execution more widely.
//
//   const Graph graph = OffloadValuesInBodies(MakeRandomControlFlow(seed), seed);
//   CHECK(fit::FindHostUse(graph).values > 0);  // true for most seeds

#include <cstdint>

#include "ir/graph.h"

namespace stowage::testing {

/// Returns a copy of `graph` that computes the same results. About half of the values that are
/// computed and read in its bodies, at any nesting depth, are offloaded. Each is offloaded between
/// two consecutive uses, which are chosen at random. The first use is the computation of the value.
Graph OffloadValuesInBodies(const Graph& graph, uint64_t seed);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_SUPPORT_OFFLOAD_VALUES_IN_BODIES_H_
