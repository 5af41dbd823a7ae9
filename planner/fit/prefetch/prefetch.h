#ifndef STOWAGE_PLANNER_FIT_PREFETCH_PREFETCH_H_
#define STOWAGE_PLANNER_FIT_PREFETCH_PREFETCH_H_

// Reloads what lies on the host early enough.
//
// A device copies beside its kernels. But a reload that stands right before what
// reads it leaves nothing to copy beside, and the kernels wait. So each is moved
// up, to where the nodes in between take as long as the copy, and copies do not
// meet on the link, which carries one at a time:
//
//   before                 after
//   ...                    m~reloaded = reload(m)       ┐ copied beside
//   dh = matmul(...)       dh = matmul(...)           │ these two
//   dw = matmul(...)       dw = matmul(...)           ┘
//   m~reloaded = reload(m)   w, m' = momentum_update(w, m~reloaded, dw)
//   w, m' = momentum_update(w, m~reloaded, dw)
//
// What is reloaded early takes bytes for longer: only room that the budget leaves
// is used. Nothing is computed otherwise. What a body of a loop or a branch reloads is moved
// up within the body, into room that is there in each iteration.
//
//   const CostFn cost = [](const Graph& graph) {
//     return CostsOfNodes(graph, /*cost=*/{}, kOffloadFlopsPerByte);
//   };
//   Result<Prefetched> early =
//       Prefetch(made.graph, made.plan, budget, cost, options);

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/cost.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

struct Prefetched {
  Graph graph;
  Plan plan;
  int moved = 0;  // reloads
};

/// `graph` with its reloads moved up, and a plan for it that fits `budget`, which
/// `plan`, of `graph` by `options`, has to fit. `cost`: of every node, in one
/// unit; of copies, what they take of the link. What bodies reload moves first, then
/// the rest; of either, nothing where nothing can move, or nothing that moved was packed
/// into the budget in a few attempts. Errors: those of PlanMemory. Linear, but for
/// planning, and for the nodes that a reload moves past.
Result<Prefetched> Prefetch(const Graph& graph, const Plan& plan, Bytes budget,
                            const CostFn& cost, PlanOptions options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_PREFETCH_PREFETCH_H_
