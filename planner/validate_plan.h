#ifndef STOWAGE_PLANNER_VALIDATE_PLAN_H_
#define STOWAGE_PLANNER_VALIDATE_PLAN_H_

// Verifies plans (planner/plan.h). The verifier does not rely on the planner's lifetimes. It
// simulates the graph's nodes in order, over an arena in which every byte records its last writer.
// It reports
//
//   - a node that reads a byte that another value has overwritten;
//   - a slot that is misaligned, outside its region or missing;
//   - a weight or state that is written by a node other than its update;
//   - an output or persistent value that does not survive the step;
//   - a stated lifetime that does not cover all uses of its values;
//   - a body whose plan violates one of these rules or does not fit the workspace of its node.
//
// Nodes are simulated as if each completed before the next one starts. The verifier does not check
// that the operands of an asynchronous collective (ir/uses.h) keep their bytes until it completes.
//
//   for (const std::string& text : ValidatePlan(graph, plan)) Report(text);

#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// Returns the violations of `plan` as a plan for `graph`, in at most `limit` sentences. If the
/// result is empty, a run in the planned arena reads the correct values, as far as collectives are
/// not asynchronous. A plan for another graph is one violation. Later checks are omitted if an
/// earlier one fails. Requires `limit >= 1`. O(n log n) in the number of values and operands.
std::vector<std::string> ValidatePlan(const Graph& graph, const Plan& plan,
                                      size_t limit = 16);

/// Verifies a plan like ValidatePlan, but does not compare the fingerprints of the plan and the
/// graph. The comparison takes as long as all other checks together. Requires that the graph and
/// the plan are known to belong together, for example because a digest covers both.
std::vector<std::string> ValidatePlanBeside(const Graph& graph,
                                            const Plan& plan,
                                            size_t limit = 16);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_VALIDATE_PLAN_H_
