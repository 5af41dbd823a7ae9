#ifndef STOWAGE_PLANNER_FIT_COST_H_
#define STOWAGE_PLANNER_FIT_COST_H_

// What levers are priced in: operations, unless a table of measured times
// (planner/fit/op_times.h) gives nanoseconds.
//
//   CostFn cost = times.CostFunction(budget);
//   std::vector<double> of_nodes = CostsOfNodes(step, cost, /*per_byte=*/0);

#include <functional>
#include <vector>

#include "ir/graph.h"

namespace stowage {

/// What every node of a graph costs to run, in any unit of which an op takes
/// some: operations, nanoseconds.
using CostFn = std::function<std::vector<double>(const Graph&)>;

/// What copying a byte between arena and host is taken to cost, in operations:
/// a device that does 200 TFLOP/s in matrix products beside a link of 25 GB/s
/// (PCIe 4.0), or one of 400 beside 50.
inline constexpr double kOffloadFlopsPerByte = 8000;

}  // namespace stowage

namespace stowage::fit {

/// The ops' own counts of operations.
std::vector<double> FlopsOfNodes(const Graph& graph);

/// By `cost`, or in operations where that is empty, and beside it `per_byte` for
/// every byte that a node copies between arena and host.
std::vector<double> CostsOfNodes(const Graph& graph, const CostFn& cost,
                                 double per_byte);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_COST_H_
