#ifndef STOWAGE_PLANNER_VALIDATE_PLAN_H_
#define STOWAGE_PLANNER_VALIDATE_PLAN_H_

// Verifies plans. The verifier does not rely on the planner's lifetimes. It simulates the
// graph's nodes in order over an arena in which every byte records its last writer. It
// reports a node that reads a byte that another value has overwritten, a slot that is
// misaligned, outside its region or missing, a weight or state that is written by any node
// except its update, and an output or persistent value that does not survive the step.
//
//   for (const std::string& text : ValidatePlan(graph, plan)) Report(text);

#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// Returns the violations of `plan` as a plan for `graph`, in at most `limit` sentences.
/// The result is empty exactly if a run in the planned arena reads the correct values.
/// O(n log n) in the number of values and operands.
std::vector<std::string> ValidatePlan(const Graph& graph, const Plan& plan,
                                      size_t limit = 16);

/// Verifies a plan like ValidatePlan, but does not compare the plan's fingerprint with the
/// graph's, which takes as long as all other checks together. Requires that the graph and
/// the plan are known to belong together, for example by a digest over both.
std::vector<std::string> ValidatePlanBeside(const Graph& graph,
                                            const Plan& plan,
                                            size_t limit = 16);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_VALIDATE_PLAN_H_
