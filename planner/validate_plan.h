#ifndef STOWAGE_PLANNER_VALIDATE_PLAN_H_
#define STOWAGE_PLANNER_VALIDATE_PLAN_H_

// The verifier of plans. It does not rely on the planner's lifetimes: it walks the
// graph's nodes in order over an imaginary arena in which every byte records its last
// writer. It reports a node that reads a byte overwritten by another, a slot that is
// misaligned, outside its region or missing, a weight or state written by anything but
// its update, and an output or persistent value that does not survive the step.
//
//   for (const std::string& text : ValidatePlan(graph, plan)) Report(text);

#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// The violations of `plan` as a plan for `graph`, at most `limit` sentences; empty
/// exactly when a run in the planned arena reads the right values. O(n log n) in values
/// and operands.
std::vector<std::string> ValidatePlan(const Graph& graph, const Plan& plan,
                                      size_t limit = 16);

/// As above, for a graph and a plan that are known to belong together, for example by a
/// digest over both: the plan's fingerprint is not compared with the graph's, which costs
/// as much as all other checks.
std::vector<std::string> ValidatePlanBeside(const Graph& graph,
                                            const Plan& plan,
                                            size_t limit = 16);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_VALIDATE_PLAN_H_
