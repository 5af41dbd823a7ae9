#ifndef STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_MILP_STEPS_H_
#define STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_MILP_STEPS_H_

// Builds small training steps for which the minimum recomputation cost within a
// budget is known. A mixed-integer linear program (MILP) was solved for each, and
// tests/goldens/recompute_milp.csv contains the results. The program
// `milp_problems` prints the steps as the problems that
// tests/goldens/make_recompute_goldens.py solves.

#include <string>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"

namespace stowage::testing {

/// Returns chains, U-nets, residual towers, attention, joined branches and gated
/// units, with different widths. Each has 18 to 55 nodes, not counting views, and
/// most have fewer than 40.
std::vector<Graph> MilpSteps();

/// Returns the workspace of a node, for planning. A matmul has a workspace of a
/// quarter of its result, so that workspaces affect the optimum.
Bytes MilpScratch(const Graph& graph, const Node& node);

/// Returns the problem of `graph` as a line of JSON. The line lists the nodes in
/// order, the bytes of the values that they produce, and the outputs. An entry of
/// a node contains its operations, workspace, operands, results and last stage.
/// The last stage is the first node that updates a param that the node reads, or
/// the last node. Views are replaced with their root values. Params, states and
/// inputs are omitted. Sizes are rounded up to the default alignment.
std::string MilpProblem(const Graph& graph);

/// Returns a hash of `problem` as 16 hexadecimal digits.
std::string MilpDigest(const std::string& problem);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_PLANNER_FIT_RECOMPUTE_MILP_STEPS_H_
