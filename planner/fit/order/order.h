#ifndef STOWAGE_PLANNER_FIT_ORDER_ORDER_H_
#define STOWAGE_PLANNER_FIT_ORDER_ORDER_H_

// The order of execution that takes the least memory. A graph says what must
// come before what; within that, the order decides when values are born and
// when they die. PlanInMemoryOrder looks for an order with a small peak, plans
// it, and keeps whichever needs the smaller arena, it or the order given.
//
//   Result<OrderedPlan> ordered = PlanInMemoryOrder(step, options);
//   ordered->graph;  // run this one: the plan is for it
//   ordered->bound;  // no order of the step takes a smaller arena
//
// Three things work together. Minimum cuts (planner/fit/order/cut.h) give the fewest
// bytes that can be alive at a task, whatever the order: a bound. A complete
// search (planner/fit/order/search.h) asks for the bound, then for the next height
// that is not refuted, as far as the effort goes, and in between for heights
// above. And where an order is highest, the cut there says which tasks to have
// run by then, which mostly lowers it.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/order/problem.h"
#include "planner/lifetimes.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

/// How much looking (OrderSearch::steps) FindMemoryOrder does at most, unless
/// more or less is asked for: about a second.
inline constexpr int64_t kOrderEffort = 100'000'000;

/// What ordering `graph` means: its nodes are the tasks, what the planner packs
/// (planner/lifetimes.h) are the contents, a view's readers its root's. An
/// update runs after all that read what it overwrites. Sizes are rounded up to
/// `alignment`. Linear in nodes and operands.
OrderProblem MakeOrderProblem(const Graph& graph, Bytes alignment,
                              const LifetimeOptions& options);

struct MemoryOrder {
  std::vector<int32_t> order;
  Bytes peak = 0;   // of `order`
  Bytes bound = 0;  // no order has a lower peak
};

/// An order of a small peak, never above that of 0, 1, 2, ..., which must be an
/// order. Deterministic.
MemoryOrder FindMemoryOrder(const OrderProblem& problem,
                            int64_t effort = kOrderEffort);

struct OrderedPlan {
  Graph graph;      // in the order that was chosen
  Plan plan;        // of that graph; plan.order is "memory"
  Bytes bound = 0;  // no order takes a smaller arena, however well packed
  bool optimal() const { return plan.arena_bytes() == bound; }
};

/// Plans `graph` in an order that takes little memory. The arena is never larger
/// than PlanMemory's for the given order, which is kept when nothing is gained.
/// Where the greedy packer leaves a gap in the new order, the best one is asked.
/// Errors: PlanMemory's. Deterministic like it.
Result<OrderedPlan> PlanInMemoryOrder(const Graph& graph,
                                      const PlanOptions& options = {},
                                      int64_t effort = kOrderEffort);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_ORDER_H_
