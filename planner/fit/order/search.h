#ifndef STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_
#define STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_

// Provides three searches on an OrderProblem (order.h).
//
// OrderSearch is a complete search for an order whose peak is at most a limit. It finds an order,
// proves that there is none, or exhausts its effort. The possible continuations depend only on the
// set of tasks that have run, so a set that has failed is not tried a second time. The search is
// therefore a depth-first dynamic program over these sets. A task runs immediately if it fits below
// the limit and does not increase the live bytes. This does not exclude any order: a task frees
// more bytes the more tasks have run before it, so an order within the limit stays within it if the
// task moves to this position. Updates therefore run as soon as their gradients exist, and views as
// soon as their operands exist.
//
//   OrderSearch search(problem);
//   if (search.Try(limit, ranks, OrderTaste::kRank, effort) ==
//       OrderSearch::Outcome::kFound) {
//     search.order();
//   }
//
// ImproveByMoves is a local search for problems that are too large for OrderSearch. A move shifts a
// task together with its predecessors to an earlier position, or together with its successors to a
// later position. A whole branch, forward and backward, therefore moves as one block. Moves are
// pseudorandom and the same in every process. Most of them move a task across the peak. A move is
// accepted if the excess over a bound does not grow.
//
//   order = ImproveByMoves(problem, std::move(order), bound, effort);
//
// CutAt computes a lower bound on the bytes that are live while a given task runs, over all orders.
// The predecessors of the task have run, and its successors have not. The other tasks that have run
// can be any set that is closed under predecessors. The set with the fewest live bytes is a minimum
// cut, in which a content costs its bytes exactly if its maker is in the set and one of its readers
// is not. The largest cut over all tasks is a lower bound on the peak of every order. The set
// determines which tasks to run before the task.
//
//   OrderCut cut = CutAt(problem, task);
//   cut.bytes;   // no order has fewer live bytes while `task` runs
//   cut.before;  // by task: whether it has run before `task`

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "planner/fit/order/order.h"

namespace stowage::fit {

/// The candidate task that is tried first.
enum class OrderTaste {
  kRank,  // the task of the smallest rank
  kMin    // the task with the fewest live bytes after it, then by rank
};

class OrderSearch {
 public:
  enum class Outcome {
    kFound,       // order() has a peak of at most the limit
    kInfeasible,  // no order exists; next() is the next limit to try
    kStopped,     // the effort ran out
  };

  /// Keeps a reference to `problem`.
  explicit OrderSearch(const OrderProblem& problem);

  /// Searches for an order with a peak of at most `limit`, in at most `effort` steps. Steps are the
  /// same on every machine, and about ten million take a second.
  Outcome Try(Bytes limit, std::span<const int32_t> ranks, OrderTaste taste,
              int64_t effort);

  /// Returns the order found. Valid after kFound.
  const std::vector<int32_t>& order() const { return order_; }
  /// Returns a lower bound on the peak of all orders, which is above `limit`. Valid after
  /// kInfeasible.
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

/// Returns an order of `problem` whose peak is at most the peak of `order`. `bound` is a lower
/// bound on the peak of all orders. Visits at most `effort` tasks. A hundred million take about a
/// second.
std::vector<int32_t> ImproveByMoves(const OrderProblem& problem,
                                    std::vector<int32_t> order, Bytes bound,
                                    int64_t effort);

struct OrderCut {
  Bytes bytes = 0;
  std::vector<bool> before = {};
};

/// Returns the minimum cut at `task` (planner/fit/min_cut.h). The network contains the tasks that
/// may run before or after `task`, so the search is fast if most tasks are predecessors or
/// successors. The sizes of all contents must sum to less than MinCut::kInfinite.
OrderCut CutAt(const OrderProblem& problem, int32_t task);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_
