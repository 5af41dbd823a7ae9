#ifndef STOWAGE_PLANNER_PACKING_CANONICAL_SEARCH_H_
#define STOWAGE_PLANNER_PACKING_CANONICAL_SEARCH_H_

// Provides a complete search for a packing whose height is at most a given capacity. The search
// finds a packing, proves that none exists, or stops because it has used the steps that it may
// take (the effort).
//
// Among all packings within the capacity, consider one with the smallest sum of offsets. In
// this packing, every buffer rests on offset 0 or on another buffer, and no buffer would fit lower.
// The search visits only such canonical packings, from the bottom up. It selects the unplaced
// buffer with the lowest possible offset and branches: either the buffer is placed at this offset,
// or another unplaced buffer is placed under it. In the second branch the buffer is lifted, which
// means that its offset is at least the lowest end of the buffers that could be placed under it.
// One of these buffers must begin so low that the gap below it is too small for the lifted buffer.
//
//   address ^  b has the lowest possible offset, 1. Either b is placed there, or
//     3 |      b is lifted, and c or d must be placed under it. If both c and d
//     2 |  ccc are already placed, the second branch fails immediately.
//     1 |aabbdd
//       +--------> time
//
// In every column of time (planner/packing/part.h), the unplaced buffers, stacked in the order of
// their lowest possible offsets, must fit below the capacity. Otherwise the branch fails. Where no
// unplaced buffer crosses from one column to the next, the two sides are solved independently.
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

/// A buffer of the search. Its size must not be 0.
struct SearchItem {
  ColumnRange range;
  Bytes size = 0;
  Bytes alignment = 1;
  std::optional<Bytes> offset = {};  // Set if the offset is fixed.
};

class CanonicalSearch {
 public:
  enum class Outcome {
    kFound,       // offsets() is a packing.
    kInfeasible,  // No packing fits this capacity.
    kStopped,     // The effort is used up, or the deadline has passed.
  };

  /// Prepares a search over `items`, whose ranges must be in columns [0, columns). Time and memory
  /// are proportional to the number of pairs of items that conflict and the sum of the ranges'
  /// lengths.
  explicit CanonicalSearch(std::vector<SearchItem> items, int32_t columns);

  /// Searches for a packing of height at most `capacity`. `priorities` must have one number per
  /// item. Among items with equal lowest possible offsets, the search selects the item with the
  /// highest priority. `effort` limits the steps of this run, whose number is the same on every
  /// machine.
  Outcome Run(Bytes capacity, const std::vector<double>& priorities,
              int64_t effort, Deadline deadline = {});

  /// Returns the offset of each item, after kFound.
  const std::vector<Bytes>& offsets() const { return offset_; }

  /// Returns a score for each item, which counts the branches that failed because of the item, in
  /// all runs. Later failures have a larger weight.
  const std::vector<double>& conflicts() const { return conflicts_; }

  /// Returns the number of steps of all runs.
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
  Bytes unit_ = 1;     // Divides every alignment.
  Bytes padding_ = 0;  // The largest padding of an item to a multiple of unit_.
  // No item is fixed, all alignments are equal and divide the sizes.
  bool uniform_ = false;
  std::vector<int32_t> by_begin_;  // Items, sorted by first column.
  std::vector<int32_t> twin_;      // The previous equal item, or -1.
  // Per item, the items that share a column with it, and the fixed items among them by offset.
  std::vector<std::vector<int32_t>> neighbours_;
  std::vector<std::vector<int32_t>> fixed_neighbours_;

  // The state of the search.
  std::vector<State> state_;
  std::vector<Bytes> low_;    // The lowest offset on top of placed items.
  std::vector<Bytes> least_;  // Lower bound of the offset in this branch.
  std::vector<Bytes> offset_;
  // The first live_[column] items of a column are its unplaced items.
  std::vector<std::vector<int32_t>> column_items_;
  // The positions of an item in its columns.
  std::vector<std::vector<int32_t>> positions_;
  std::vector<int32_t> live_;
  // Sum of sizes per column, each rounded to unit_.
  std::vector<Bytes> unplaced_;
  std::vector<int32_t> witness_;  // An item that proves that the column fits.
  std::vector<Change> trail_;

  std::vector<int32_t> marked_;  // Columns to check.
  std::vector<uint8_t> is_marked_;
  // Items that are the only candidate in a column.
  std::vector<int32_t> urgent_;
  std::vector<Release> releases_;  // Used by ColumnFits.

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

/// Runs CanonicalSearch with restarts. The run time of one search varies by factors of thousands
/// with the order in which equally low buffers are tried, and no order is good for all problems.
/// The class therefore makes many runs of limited effort. The runs cycle through several orders,
/// which depend on lifetime, size, random noise and CanonicalSearch::conflicts(). The limits
/// follow the sequence of Luby, Sinclair and Zuckerman (1993), 1 1 2 1 1 2 4 ..., so a small search
/// space is eventually exhausted. The random numbers are the same in every process.
class RestartingSearch {
 public:
  /// Prepares the search. Requires that `problem` passes CheckProblem and outlives this object,
  /// which keeps a reference to it. Time and memory are about proportional to CountConflicts.
  explicit RestartingSearch(const Problem& problem);

  /// Searches for a packing of height at most `capacity`, in about `effort` steps at most.
  /// Failures in earlier calls guide later calls.
  CanonicalSearch::Outcome Try(Bytes capacity, int64_t effort,
                               Deadline deadline = {});

  /// Returns the packing that was found last. Requires that a call returned kFound.
  const Solution& solution() const { return solution_; }

  /// Returns the number of steps of all calls.
  int64_t steps() const { return search_.steps(); }

 private:
  void Prioritize(int64_t run);
  void TakeSolution();

  const Problem& problem_;
  std::vector<size_t> buffers_;  // The buffer of each item.
  CanonicalSearch search_;
  int64_t short_run_ = 0;
  int64_t runs_ = 0;
  std::vector<double> priorities_;
  std::mt19937_64 random_;
  Solution solution_;
};

/// Returns the number of pairs of buffers that are live at the same time, without buffers of size
/// 0. O(n log n).
int64_t CountConflicts(const Problem& problem);

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_CANONICAL_SEARCH_H_
