#ifndef STOWAGE_PLANNER_PACKING_CANONICAL_SEARCH_H_
#define STOWAGE_PLANNER_PACKING_CANONICAL_SEARCH_H_

// A complete search for a packing no higher than a capacity. It finds one, proves that there
// is none, or runs out of effort.
//
// Of all packings within the capacity, one has the smallest sum of offsets. In it every
// buffer rests on the floor or on another buffer, and none would fit lower. Only such
// canonical packings are searched, from the bottom up: the buffer with the lowest possible
// offset is either placed there, or an unplaced buffer goes under it. In the second case it
// is lifted: its offset is at least the lowest end of the buffers that could go under it,
// and one of these must begin too low to leave a gap that it would fit in.
//
//   address ^  b is lowest, at 1. Either it stays there, or it is lifted, and
//     3 |      then c or d must go under it. With neither left, the second case
//     2 |  ccc fails at once.
//     1 |aabbdd
//       +--------> time
//
// In every column of time the unplaced buffers, in order of their lowest possible offsets,
// must fit below the capacity; otherwise the branch fails. Where no unplaced buffer crosses
// from one column to the next, the two sides are solved independently.
//
//   RestartingSearch search(problem);
//   if (search.Try(capacity, effort) == CanonicalSearch::Outcome::kFound) search.solution();

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "planner/packing/part.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

/// A buffer of the search; never of size zero.
struct SearchItem {
  ColumnRange range;
  Bytes size = 0;
  Bytes alignment = 1;
  std::optional<Bytes> offset = {};  // where it is fixed
};

class CanonicalSearch {
 public:
  enum class Outcome {
    kFound,       // offsets() hold a packing
    kInfeasible,  // there is none at this capacity
    kStopped,     // the effort or the time ran out
  };

  /// Time and memory are proportional to the pairs of items that conflict.
  explicit CanonicalSearch(std::vector<SearchItem> items, int32_t columns);

  /// Searches for a packing of height at most `capacity`. Of items with equal lowest offsets,
  /// the one with the higher priority is placed first. `effort` bounds the steps of this run,
  /// which are the same on every machine.
  Outcome Run(Bytes capacity, const std::vector<double>& priorities,
              int64_t effort, Deadline deadline = {});

  /// One per item, after kFound.
  const std::vector<Bytes>& offsets() const { return offset_; }

  /// How often each item was among those that could not be placed, over all
  /// runs; the latest failures count the most.
  const std::vector<double>& conflicts() const { return conflicts_; }

  /// The steps of all runs so far.
  int64_t steps() const { return steps_; }

 private:
  enum class State : uint8_t { kFree, kLifted, kPlaced };
  struct Change {
    int32_t item;
    State state;
    Bytes low;
    Bytes least;
  };
  struct Release {
    Bytes from;
    Bytes size;
  };

  void Reset();
  bool Solve(std::vector<int32_t>* group);
  bool SolveConnected(std::vector<int32_t>* group);
  bool Splits(const std::vector<int32_t>& group) const;
  int32_t Lowest(const std::vector<int32_t>& group) const;
  int32_t Urgent();
  bool LeavesGap(int32_t item);
  bool IsForced(int32_t item, const std::vector<int32_t>& group) const;
  bool Place(int32_t item, const std::vector<int32_t>& group);
  void Lift(int32_t item);
  bool Propagate(const std::vector<int32_t>& group);
  bool RaiseLifted(const std::vector<int32_t>& group);
  bool ColumnFits(int32_t column);
  Bytes PastFixed(int32_t item, Bytes low) const;
  void MarkColumns(int32_t item);
  void UnmarkColumns();
  bool BlameItem(int32_t item);
  bool BlameColumn(int32_t column);
  void Bump(int32_t item);
  void Save(int32_t item);
  void UndoTo(size_t mark);
  bool OutOfEffort();

  std::vector<SearchItem> items_;
  int32_t columns_ = 0;
  Bytes unit_ = 1;     // divides every alignment
  Bytes padding_ = 0;  // the most that rounding to units adds to an item
  bool uniform_ =
      false;  // nothing fixed, sizes are whole alignments, all equal
  std::vector<int32_t> by_begin_;  // items by the first column
  std::vector<int32_t> twin_;  // the item before that is equal in all, or -1
  std::vector<std::vector<int32_t>> neighbours_;        // sharing a column
  std::vector<std::vector<int32_t>> fixed_neighbours_;  // by offset

  // The state of the search.
  std::vector<State> state_;
  std::vector<Bytes> low_;    // where an item would stand on what is placed
  std::vector<Bytes> least_;  // no smaller offset is possible from here on
  std::vector<Bytes> offset_;
  // The unplaced items of a column are the first live_[column] of it.
  std::vector<std::vector<int32_t>> column_items_;
  std::vector<std::vector<int32_t>> positions_;  // of an item in its columns
  std::vector<int32_t> live_;
  std::vector<Bytes> unplaced_;   // their sum of sizes, in whole units
  std::vector<int32_t> witness_;  // an item that showed the column to fit
  std::vector<Change> trail_;

  std::vector<int32_t> marked_;  // columns to look at again
  std::vector<uint8_t> is_marked_;
  std::vector<int32_t> urgent_;    // the only ones that can go on in a column
  std::vector<Release> releases_;  // of ColumnFits

  const std::vector<double>* priorities_ = nullptr;
  Bytes capacity_ = 0;
  int64_t steps_ = 0;
  int64_t most_steps_ = 0;
  int64_t nodes_ = 0;
  Deadline deadline_;
  bool stopped_ = false;
  std::vector<double> conflicts_;
  double bump_ = 1;
};

/// CanonicalSearch with restarts. Its run time varies by factors of thousands with the order
/// in which equal candidates are tried, and no order is good for all problems. Runs of
/// limited effort therefore go through a portfolio of orders, by lifetime, size, random noise
/// and how often a buffer was in a conflict before. The limits follow the sequence of Luby,
/// Sinclair and Zuckerman (1993), 1 1 2 1 1 2 4 ...: a small search space is exhausted in the
/// end. The random numbers are the same in every process.
class RestartingSearch {
 public:
  /// For a problem that passes CheckProblem. Time and memory are proportional to
  /// CountConflicts.
  explicit RestartingSearch(const Problem& problem);

  /// Searches for a packing of height at most `capacity`, in at most about
  /// `effort` steps. The conflicts of earlier calls guide later ones.
  CanonicalSearch::Outcome Try(Bytes capacity, int64_t effort,
                               Deadline deadline = {});

  /// The packing found last.
  const Solution& solution() const { return solution_; }

  /// The steps of all calls so far.
  int64_t steps() const { return search_.steps(); }

 private:
  void Prioritize(int64_t run);
  void TakeSolution();

  const Problem& problem_;
  std::vector<size_t> buffers_;  // of the items
  CanonicalSearch search_;
  int64_t short_run_ = 0;
  int64_t runs_ = 0;
  std::vector<double> priorities_;
  std::mt19937_64 random_;
  Solution solution_;
};

/// How many pairs of buffers conflict. O(n log n).
int64_t CountConflicts(const Problem& problem);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_CANONICAL_SEARCH_H_
