#ifndef STOWAGE_PLANNER_CERTIFICATE_H_
#define STOWAGE_PLANNER_CERTIFICATE_H_

// Certificates: what a plan or a refusal claims, with all that is needed to check it
// without Stowage. docs/guides/certificates.md defines the text and the claims;
// tools/check_certificate.py checks them.
//
// The certificate of a plan claims that every value has its bytes in the arena, that no
// two live values share a byte, that no packing of the same lifetimes takes less than
// the lower bound, and that no order of the nodes takes less than the order bound. The
// certificate of a refusal claims that no order of the nodes, with any packing, fits the
// budget.
//
// The order bound belongs to one node. Of all values that some order could have live
// while it runs, it counts those that every order has: the operands and results, and
// values made before the node in every order and needed after it in every order.
//
//   Plan plan = *PlanMemory(step);
//   WriteFile("step.certificate", CertifyPlan(step, plan));
//   Result<std::string> refusal = CertifyRefusal(step, plan, 64 << 20);
//
// A certificate takes the order of the nodes, the sizes, the kernels' scratch and the
// operands that kernels may overwrite from the graph and the plan. The scratch of a loop
// counts in bounds with the lower bound of its body, that of a cond not at all. Host
// memory has no part in it.

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// The certificate of `plan`, of a size linear in the values and their uses.
/// Precondition: ValidatePlan(graph, plan) is empty. The node of the order bound is that
/// with the largest found in a search of a bounded number of steps, about a second.
std::string CertifyPlan(const Graph& graph, const Plan& plan);

/// The certificate that no order of `graph` fits `budget`, given a plan for the graph
/// that states its scratch. Error kUnsupported, naming the largest order bound found, if
/// that is not above the budget: a refusal may then be right, and has no certificate.
Result<std::string> CertifyRefusal(const Graph& graph, const Plan& plan,
                                   Bytes budget);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_CERTIFICATE_H_
