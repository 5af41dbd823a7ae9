#ifndef STOWAGE_PLANNER_CERTIFICATE_H_
#define STOWAGE_PLANNER_CERTIFICATE_H_

// Writes certificates of plans and refusals. A certificate is text that contains claims
// about the memory of a plan, and all data that is needed to check them without Stowage.
// docs/guides/certificates.md defines the text and the claims, and
// tools/check_certificate.py checks them.
//
// The certificate of a plan claims that every value has its bytes in the arena, that no two
// live values share a byte, that no packing of the same lifetimes is smaller than the lower
// bound, and that no order of the nodes takes less memory than the order bound. The
// certificate of a refusal claims that no order of the nodes, with any packing, fits the
// budget.
//
// The order bound is the memory that is live while one particular node runs, in every
// order. It counts the node's operands and results, the values that are always live, and
// the values that every order computes before the node and uses after it.
//
//   Plan plan = *PlanMemory(step);
//   WriteFile("step.certificate", CertifyPlan(step, plan));
//   Result<std::string> refusal = CertifyRefusal(step, plan, 64 << 20);
//
// A certificate copies the order of the nodes, the sizes, the kernels' workspace and the
// operands that kernels may overwrite from the graph and the plan. In bounds, the workspace
// of a loop counts as the lower bound of its body, and the workspace of a cond counts as 0.
// Host memory is not covered.

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// Returns the certificate of `plan`. Requires that ValidatePlan(graph, plan) is empty. The
/// size of the certificate is linear in the number of values and their uses. The order
/// bound is the largest that is found in a search with a limited number of steps, which
/// takes about a second.
std::string CertifyPlan(const Graph& graph, const Plan& plan);

/// Returns the certificate that no order of `graph` fits `budget`. `plan` is a plan of
/// `graph` that contains its workspace. Returns kUnsupported, naming the largest order
/// bound found, if this bound does not exceed the budget. The refusal may then be correct,
/// but it has no certificate. Also returns kUnsupported if the graph has no nodes.
Result<std::string> CertifyRefusal(const Graph& graph, const Plan& plan,
                                   Bytes budget);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_CERTIFICATE_H_
