#ifndef STOWAGE_PLANNER_VALIDATE_PLAN_H_
#define STOWAGE_PLANNER_VALIDATE_PLAN_H_

// The judge of plans. It trusts no lifetime that the planner derived: it walks
// the graph's nodes in order over an imaginary arena in which every byte
// remembers who wrote it last, and complains when a node reads a byte that
// somebody else has written since, when a slot is misaligned, outside its
// region or missing, when anything but its update touches a weight or a state,
// or when an output or anything persistent does not survive the step.
//
//   for (const std::string& text : ValidatePlan(graph, plan)) Report(text);

#include <string>
#include <vector>

#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// What is wrong with `plan` as a plan for `graph`, at most `limit` sentences;
/// empty exactly when a run in the planned arena reads what it should.
/// O(n log n) in values and operands.
std::vector<std::string> ValidatePlan(const Graph& graph, const Plan& plan,
                                      size_t limit = 16);

/// The same of a graph and a plan that are known to belong together, as a digest
/// over both says: the plan's fingerprint, whose check costs as much as all else,
/// is not compared with the graph's.
std::vector<std::string> ValidatePlanBeside(const Graph& graph,
                                            const Plan& plan,
                                            size_t limit = 16);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_VALIDATE_PLAN_H_
