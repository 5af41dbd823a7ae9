#ifndef STOWAGE_TESTS_PLANNER_FIT_ORDER_GRAPHS_H_
#define STOWAGE_TESTS_PLANNER_FIT_ORDER_GRAPHS_H_

// Builds graphs whose peak memory depends on the execution order, for tests of
// planner/fit/order. In these graphs, several nodes are often ready to run, and
// they differ in the bytes that they allocate and free. The nodes of the models
// are listed level by level, as people usually write models.

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace stowage::fit {

/// Returns 20 training steps, of four kinds in five sizes, from about 60 nodes
/// to about 700. The kinds are branches of different widths that are joined,
/// U-nets with skip connections, a trunk with several heads, and towers of
/// residual blocks.
std::vector<Graph> OrderGraphs();

/// Returns a random small graph with about `nodes` nodes that allocate results,
/// and with some views and parameter updates.
Graph RandomOrderGraph(uint64_t seed, int nodes);

}  // namespace stowage::fit

#endif  // STOWAGE_TESTS_PLANNER_FIT_ORDER_GRAPHS_H_
