#ifndef STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_MILP_STEPS_H_
#define STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_MILP_STEPS_H_

// Small training steps for which the fewest extra operations within a budget
// are known: an integer program has been solved for each, and the answers stand
// in tests/goldens/recompute_milp.csv. `milp_problems` prints the steps as the
// problems that tests/goldens/make_recompute_goldens.py solves.

#include <string>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"

namespace stowage::testing {

/// Chains, U-nets, residual towers, attention, branches that meet and gates, of
/// different widths: 18 to 55 nodes that are no views, most below 40.
std::vector<Graph> MilpSteps();

/// Scratch of a node, as a PlanOptions::workspace: a quarter of the result of a
/// product, so that scratch counts too.
Bytes MilpScratch(const Graph& graph, const Node& node);

/// One line of JSON: the nodes in order with their operations, scratch and last
/// stage (the node that updates a param they read, or the last one), what they
/// read and make; the bytes of what is made. Views are resolved to what they
/// look into; params, states and inputs are left out. Sizes are rounded up to
/// the default alignment.
std::string MilpProblem(const Graph& graph);

/// A hash of MilpProblem, 16 hexadecimal digits.
std::string MilpDigest(const std::string& problem);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_MILP_STEPS_H_
