#ifndef STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_
#define STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_

// A complete search for an order whose peak is no higher than a limit. It finds
// one, or proves that there is none, or runs out of the effort it was given.
//
// What can follow on a set of tasks that have run depends on the set alone, so
// a set that has failed once is not tried again, however it is reached: this is
// dynamic programming over the sets that some order can have run, depth first.
// And some tasks need no second thought: one that fits below the limit and
// leaves no more bytes alive than before may run at once. Whatever order would
// have run it later stays below the limit with it moved to here, because the
// more has run, the more a task that frees something frees, and all that comes
// between then starts from no more bytes than it did. So updates run as soon as
// their gradients are there, and views as soon as what they look into.
//
//   OrderSearch search(problem);
//   if (search.Try(limit, ranks, effort) == OrderSearch::Outcome::kFound) {
//     Use(search.order());
//   }

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "planner/fit/order/order.h"

namespace stowage::fit {

/// Which of several tasks that need thought is tried first.
enum class OrderTaste {
  kRank,  // the one of the smallest rank
  kMin    // the one that leaves the fewest bytes alive, then by rank
};

class OrderSearch {
 public:
  enum class Outcome {
    kFound,       // order() has a peak of at most the limit
    kInfeasible,  // there is none; next() is the lowest that may have one
    kStopped,     // the effort ran out
  };

  /// Keeps a reference to `problem`.
  explicit OrderSearch(const OrderProblem& problem);

  /// Searches for an order with a peak of at most `limit`. `effort` bounds the
  /// steps, a measure that is the same on every machine; some ten million take
  /// a second.
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

// A local search on orders, for when a complete one is too long. A move takes a
// task together with all that must run before it and brings them forward, as one
// block; or puts it off with all that waits for it. So a whole branch, forward
// and backward, is done in one go instead of level by level with its neighbours.
// Moves are drawn at random, by the same numbers in every process, most of them
// around the highest time, and taken when what sticks out above a bound does not
// get worse.
//
//   order = ImproveByMoves(problem, std::move(order), bound, effort);

/// An order of `problem` as high as `order` or lower, `bound` being what no
/// order can beat. `effort` bounds the steps: tasks looked at, some hundred
/// million of which take a second.
std::vector<int32_t> ImproveByMoves(const OrderProblem& problem,
                                    std::vector<int32_t> order, Bytes bound,
                                    int64_t effort);

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

struct OrderCut {
  Bytes bytes = 0;
  std::vector<bool> before = {};
};

/// The minimum cut at `task` (planner/fit/min_cut.h), in a network of the tasks that
/// may run on either side of it: fast when most must run before or after. The
/// sizes of all contents must sum to less than MinCut::kInfinite.
OrderCut CutAt(const OrderProblem& problem, int32_t task);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_
