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

#include "planner/fit/order/problem.h"

namespace stowage::fit {

/// Which of several tasks that need thought is tried first.
enum class OrderTaste {
  kRank,   // the one of the smallest rank
  kFewest  // the one that leaves the fewest bytes alive, then by rank
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

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_ORDER_SEARCH_H_
