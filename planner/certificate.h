#ifndef STOWAGE_PLANNER_CERTIFICATE_H_
#define STOWAGE_PLANNER_CERTIFICATE_H_

// Writes certificates of plans (planner/plan.h) and of refusals, which are errors that say that a
// budget is too small. A certificate is text that contains claims about the memory of a plan, and
// all data that is needed to check them without Stowage. docs/guides/certificates.md defines the
// text and the claims, and tools/check_certificate.py checks them.
//
// The certificate of a plan claims that every value has its bytes in the arena, that no two
// live values share a byte, that no packing of the same lifetimes is smaller than the lower
// bound, and that no order of the nodes takes less memory than the order bound. The
// certificate of a refusal claims that no order of the nodes, with any packing, fits the
// budget.
//
// The order bound is memory that is live while one particular node runs, whatever the order of the
// nodes. It counts the node's operands and results, the values that are always live, and the
// values that every order computes before the node and uses after it.
//
//   Plan plan = *PlanMemory(step);
//   WriteFile("step.certificate", CertifyPlan(step, plan));
//   Result<std::string> refusal = CertifyRefusal(step, plan, 64 << 20);
//
// A certificate copies the following data from the graph and the plan, without proof: the order of
// the nodes, the sizes, the workspace of kernels, and the operands that kernels may overwrite. In
// bounds, the workspace of a loop is counted as the lower bound of its body, and the workspace of
// a cond is counted as 0. Certificates do not cover host memory.

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage {

/// Returns the certificate of `plan`. Requires that ValidatePlan(graph, plan) is empty and that no
/// param is outside the arena (PlanOptions::outside). The size of the certificate is linear in the
/// number of values and their uses. The order bound is the largest that a search with a limited
/// number of steps finds. The search takes about a second at most.
std::string CertifyPlan(const Graph& graph, const Plan& plan);

/// Returns the certificate that no order of the nodes of `graph` fits `budget`. `plan` must be a
/// valid plan of `graph` with more than `budget` bytes, which provides the sizes of workspace.
/// Returns kUnsupported, naming the largest order bound found, if this bound does not exceed the
/// budget. The refusal may then be correct, but it has no certificate. Also returns kUnsupported if
/// the graph has no nodes.
Result<std::string> CertifyRefusal(const Graph& graph, const Plan& plan,
                                   Bytes budget);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_CERTIFICATE_H_
