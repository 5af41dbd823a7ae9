#ifndef STOWAGE_TESTS_PLANNER_FIT_ORDER_GRAPHS_H_
#define STOWAGE_TESTS_PLANNER_FIT_ORDER_GRAPHS_H_

// Training steps of models whose order of execution matters: several things
// could be computed next, and not all leave the same bytes behind. The models
// are written down as people write them, level by level.

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace stowage::fit {

/// 20 steps: four kinds (branches of different widths that are joined, U-shapes
/// with skips, a trunk with several heads, towers of residual blocks) in five
/// sizes, from about 60 nodes to about 700.
std::vector<Graph> OrderGraphs();

/// A small forward graph of `nodes` nodes that make values, and a few views and
/// an update now and then; every seed gives another one.
Graph RandomOrderGraph(uint64_t seed, int nodes);

}  // namespace stowage::fit

#endif  // STOWAGE_TESTS_PLANNER_FIT_ORDER_GRAPHS_H_
