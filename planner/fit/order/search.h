#ifndef STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_
#define STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_

// Provides three algorithms for an OrderProblem (planner/fit/order/order.h).
//
// OrderSearch is a complete search for an order whose peak is at most a limit. It finds an order,
// proves that there is none, or exhausts its effort. The possible continuations depend only on the
// set of tasks that have run, so a set that has failed is not tried a second time. The search is
// therefore a depth-first dynamic program over these sets. A task runs immediately if it fits below
// the limit and does not increase the live bytes. This rule does not exclude all orders within the
// limit. The later a task runs, the more bytes it frees, so if an order within the limit continues
// the tasks that have run, the order stays within the limit if the task moves to this position.
// Updates therefore run as soon as their gradients exist, and views as soon as their operands
// exist.
//
//   OrderSearch search(problem);
//   if (search.Try(limit, ranks, OrderTaste::kRank, effort) ==
//       OrderSearch::Outcome::kFound) {
//     search.order();
//   }
//
// ImproveByMoves is a local search for problems that are too large for OrderSearch. A move shifts a
// task together with its predecessors to an earlier position, or together with its successors to a
// later position. A whole branch of the network, with its forward and backward nodes, therefore
// moves as one block. Moves are pseudorandom and the same in every process. Most moves shift a task
// across the peak. A move is accepted if it does not increase the excess of live bytes over a
// bound.
//
//   order = ImproveByMoves(problem, std::move(order), bound, effort);
//
// CutAt computes a lower bound on the bytes that are live while a given task runs, over all orders.
// At this time, the predecessors of the task have run, and its successors have not. The other tasks
// that have run can be any set that contains all predecessors of its tasks. A minimum cut gives the
// set with the fewest live bytes. In this cut, a content costs its bytes exactly if its maker is in
// the set and one of its readers is not. The largest CutAt over all tasks is a lower bound on the
// peak of every order. To reach the bound at a task, an order must run the tasks of the set before
// it.
//
//   OrderCut cut = CutAt(problem, task);
//   cut.bytes;   // No order has fewer live bytes while `task` runs.
//   cut.before;  // By task: whether it has run before `task`.

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "planner/fit/order/order.h"

namespace stowage::fit {

/// The task that OrderSearch tries first.
enum class OrderTaste {
  kRank,  // The task with the smallest rank.
  kMin  // The task with the fewest live bytes after it. Ties are broken by rank.
};

class OrderSearch {
 public:
  enum class Outcome {
    kFound,       // order() has a peak of at most the limit.
    kInfeasible,  // No such order exists. next() is the next limit to try.
    kStopped,     // The effort or the memory for failed sets is used up.
  };

  /// Keeps a reference to `problem`.
  explicit OrderSearch(const OrderProblem& problem);

  /// Searches for an order with a peak of at most `limit`, in about `effort` steps at most. `ranks`
  /// must have one entry per task. The number of steps is the same on every machine. About ten
  /// million steps take a second.
  Outcome Try(Bytes limit, std::span<const int32_t> ranks, OrderTaste taste,
              int64_t effort);

  /// Returns the order found. Requires that Try has returned kFound.
  const std::vector<int32_t>& order() const { return order_; }
  /// Returns a lower bound on the peak of all orders, which is above the limit. Requires that Try
  /// has returned kInfeasible.
  Bytes next() const { return next_; }
  /// Returns the number of steps of all calls so far.
  int64_t steps() const { return steps_; }

 private:
  struct Hash {
    uint64_t low = 0;
    uint64_t high = 0;
    friend bool operator==(const Hash&, const Hash&) = default;
  };
  struct HashOf {
    size_t operator()(const Hash& hash) const { return hash.low; }
  };
  void RunObvious(Bytes limit);
  void Run(int32_t task);
  void TakeBackTo(size_t mark);
  std::vector<int32_t> Candidates(Bytes limit, std::span<const int32_t> ranks,
                                  OrderTaste taste);

  OrderState state_;
  std::vector<Hash> task_hashes_;
  Hash hash_;  // of the tasks that have run
  std::vector<int32_t> order_;
  std::unordered_set<Hash, HashOf> failed_;  // for failed_limit_
  Bytes failed_limit_ = -1;
  Bytes next_ = 0;
  int64_t steps_ = 0;
};

/// Returns an order of `problem` whose peak is at most the peak of `order`, which must be a
/// topological order. `bound` must be a lower bound on the peak of all orders. Visits about
/// `effort` tasks at most. A hundred million visits take about a second.
std::vector<int32_t> ImproveByMoves(const OrderProblem& problem,
                                    std::vector<int32_t> order, Bytes bound,
                                    int64_t effort);

struct OrderCut {
  Bytes bytes = 0;
  std::vector<bool> before = {};  // By task.
};

/// Returns the minimum cut at `task` (planner/fit/min_cut.h). The network contains only the tasks
/// that may run either before or after `task`, so it is small if most tasks are predecessors or
/// successors of `task`. The sum of the sizes of all contents must be below MinCut::kInfinite.
OrderCut CutAt(const OrderProblem& problem, int32_t task);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_
