#ifndef STOWAGE_TRAIN_FIND_LARGEST_H_
#define STOWAGE_TRAIN_FIND_LARGEST_H_

// The largest batch, sequence or rank whose step fits a budget, found by planning, with
// nothing run.
//
//   const auto need_of = [&](int64_t batch) -> Result<Bytes> {
//     STOWAGE_ASSIGN_OR_RETURN(TrainingPlanner planner,
//                              TrainingPlanner::Make(MySpec(batch), device));
//     return planner.step().SmallestBudget();
//   };
//   Result<Largest> largest = FindLargest(need_of, 4'000'000'000);
//   largest->value;               // fits
//   largest->above->need.value()  // what the next one needs, which does not

#include <cstdint>
#include <functional>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

struct LargestOptions {
  /// Values are multiples of this, which is the least of them, too.
  int64_t multiple = 1;
  /// The most that is asked for. At least `multiple`.
  int64_t most = int64_t{1} << 40;
};

struct Largest {
  struct Above {
    int64_t value = 0;
    /// The smallest budget that it fits; or why the model does not take it.
    Result<Bytes> need = Bytes{0};
  };

  int64_t value = 0;
  Bytes need = 0;  // the smallest budget that it fits
  /// The next multiple, which is refused; absent where `most` leaves none.
  std::optional<Above> above = {};
  int plans = 0;  // calls of `need_of`
};

/// The largest value whose need is at most `budget`, where needs do not fall with the value:
/// found by needs that are predicted from others, in a handful of calls where they rise
/// about linearly. A search for a plan may find less for a slightly larger value, so the two
/// behind a refused one are looked at as well: where one of them fits, it goes on from there.
/// At most 3 log2(value / multiple) + 8 calls, and as many for each such step. Errors: kBudgetTooSmall, where the least value does not fit; that of the least
/// value's need; and any of others but kInvalidArgument and kUnsupported, which say that a
/// value is too large for the model.
Result<Largest> FindLargest(
    const std::function<Result<Bytes>(int64_t)>& need_of, Bytes budget,
    const LargestOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_TRAIN_FIND_LARGEST_H_
