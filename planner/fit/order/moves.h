#ifndef STOWAGE_PLANNER_FIT_ORDER_MOVES_H_
#define STOWAGE_PLANNER_FIT_ORDER_MOVES_H_

// A local search on orders, for when a complete one is too long. A move takes a
// task together with all that must run before it and brings them forward, as one
// block; or puts it off with all that waits for it. So a whole branch, forward
// and backward, is done in one go instead of level by level with its neighbours.
// Moves are drawn at random, by the same numbers in every process, most of them
// around the highest time, and taken when what sticks out above a bound does not
// get worse.
//
//   order = ImproveByMoves(problem, std::move(order), bound, effort);

#include <cstdint>
#include <vector>

#include "planner/fit/order/problem.h"

namespace stowage::fit {

/// An order of `problem` as high as `order` or lower, `bound` being what no
/// order can beat. `effort` bounds the steps: tasks looked at, some hundred
/// million of which take a second.
std::vector<int32_t> ImproveByMoves(const OrderProblem& problem,
                                    std::vector<int32_t> order, Bytes bound,
                                    int64_t effort);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_MOVES_H_
