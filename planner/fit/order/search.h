#ifndef STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_
#define STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_

// Three searches on an OrderProblem (order.h).
//
// OrderSearch is a complete search for an order whose peak is at most a limit: it finds one,
// proves that there is none, or runs out of effort. The possible continuations depend only on
// the set of tasks that have run, so a set that has failed is not tried again: dynamic
// programming over these sets, depth first. A task that fits below the limit and leaves no more
// bytes live than before runs at once. This excludes no order: the more tasks have run, the more
// a task frees, so any order below the limit stays below it with the task moved here. Updates
// therefore run as soon as their gradients exist, and views as soon as their operands.
//
//   OrderSearch search(problem);
//   if (search.Try(limit, ranks, OrderTaste::kRank, effort) ==
//       OrderSearch::Outcome::kFound) {
//     search.order();
//   }
//
// ImproveByMoves is a local search for problems that are too large. A move takes a task with all
// its predecessors earlier as one block, or with all its successors later, so a whole branch,
// forward and backward, moves at once. Moves are pseudorandom, the same in every process, mostly
// across the peak, and accepted if the excess over a bound does not grow.
//
//   order = ImproveByMoves(problem, std::move(order), bound, effort);
//
// CutAt is a lower bound on the bytes live while one task runs, over all orders. Its predecessors
// have run, its successors have not, and of the rest any set that is closed under predecessors
// may have. The set with the fewest live bytes is a minimum cut: a content costs its bytes
// exactly if its maker is in the set and one of its readers is not. The largest cut over the
// tasks is a bound for every order, and the set says which tasks to run before the task.
//
//   OrderCut cut = CutAt(problem, task);
//   cut.bytes;   // no order has fewer live while `task` runs
//   cut.before;  // per task: whether it has run by then

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "planner/fit/order/order.h"

namespace stowage::fit {

/// Which of several candidate tasks is tried first.
enum class OrderTaste {
  kRank,  // the smallest rank
  kMin    // the fewest live bytes afterwards, then the smallest rank
};

class OrderSearch {
 public:
  enum class Outcome {
    kFound,       // order() has a peak of at most the limit
    kInfeasible,  // there is none; next() is the lowest limit that may have one
    kStopped,     // the effort ran out
  };

  /// Keeps a reference to `problem`.
  explicit OrderSearch(const OrderProblem& problem);

  /// Searches for an order with a peak of at most `limit`, in at most `effort` steps, which are
  /// the same on every machine; some ten million take a second.
  Outcome Try(Bytes limit, std::span<const int32_t> ranks, OrderTaste taste,
              int64_t effort);

  /// After kFound.
  const std::vector<int32_t>& order() const { return order_; }
  /// After kInfeasible: no order has a peak below this, which is above `limit`.
  Bytes next() const { return next_; }
  /// The steps of all calls so far.
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
  std::unordered_set<Hash, HashOf> failed_;  // at failed_limit_
  Bytes failed_limit_ = -1;
  Bytes next_ = 0;
  int64_t steps_ = 0;
};

/// An order of `problem` whose peak is at most that of `order`; `bound` is a lower bound on all
/// peaks. Visits at most `effort` tasks, a hundred million in about a second.
std::vector<int32_t> ImproveByMoves(const OrderProblem& problem,
                                    std::vector<int32_t> order, Bytes bound,
                                    int64_t effort);

struct OrderCut {
  Bytes bytes = 0;
  std::vector<bool> before = {};
};

/// The minimum cut at `task` (planner/fit/min_cut.h), in a network of the tasks that may run on
/// either side of it: fast if most are predecessors or successors. Precondition: the sizes of
/// all contents sum to less than MinCut::kInfinite.
OrderCut CutAt(const OrderProblem& problem, int32_t task);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_
