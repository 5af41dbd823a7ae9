#ifndef STOWAGE_PLANNER_FIT_ORDER_CUT_H_
#define STOWAGE_PLANNER_FIT_ORDER_CUT_H_

// The fewest bytes that can be alive while one task runs, over all orders. What
// must run before it has run, what must run after it has not, and of the others
// any set that is closed under "must run before" may have: the one that leaves
// the fewest bytes alive is a minimum cut, for each content costs its bytes
// exactly when its maker is in the set and one of its readers is not.
//
// So the largest of these figures over the tasks is a bound that no order can
// beat. And the set itself tells how to reorder: what is in it goes before the
// task, the rest after.
//
//   OrderCut cut = CutAt(problem, task);
//   cut.bytes;   // no order has fewer alive while `task` runs
//   cut.before;  // per task: whether it has run by then

#include <cstdint>
#include <vector>

#include "planner/fit/order/problem.h"

namespace stowage::fit {

struct OrderCut {
  Bytes bytes = 0;
  std::vector<bool> before = {};
};

/// The minimum cut at `task` (planner/fit/min_cut.h), in a network of the tasks that
/// may run on either side of it: fast when most must run before or after. The
/// sizes of all contents must sum to less than MinCut::kInfinite.
OrderCut CutAt(const OrderProblem& problem, int32_t task);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_CUT_H_
