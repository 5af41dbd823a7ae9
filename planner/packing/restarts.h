#ifndef STOWAGE_PLANNER_PACKING_RESTARTS_H_
#define STOWAGE_PLANNER_PACKING_RESTARTS_H_

// A search with restarts. How long the complete search takes depends on the
// order in which buffers of equal standing are tried, by factors of thousands,
// and no order is good for all problems. So none is trusted for long: runs of
// limited effort go through a portfolio of orders, some by the shape of the
// buffers, some by how often a buffer was in the way in earlier runs, and each
// run is a little different from the last. The limits follow the sequence of
// Luby, Sinclair and Zuckerman (1993): 1 1 2 1 1 2 4 1 1 2 ..., so that many
// short runs go with a few long ones, and a search space that is small is
// exhausted in the end. The random numbers are the same in every process.
//
//   RestartingSearch search(problem);
//   if (search.Try(capacity, effort) == CanonicalSearch::Outcome::kFound) {
//     Use(search.solution());
//   }

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "planner/packing/canonical_search.h"
#include "planner/packing/pack_part.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

// The greedy packer: take the buffers in some order and give each the lowest
// gap it fits in. All depends on the order, so several good ones are tried:
//
//   pressure  those alive when the hold is fullest first, then by size
//   lifetime  longest first, then largest
//   peak      by distance in time from the fullest moment, then by size
//   size      largest first, then longest
//   area      largest size x lifetime first
//   birth     in the order of the schedule
//   death     in the order of the schedule run backwards
//
// Fixed buffers go before all others, then those alive at every time, which
// would only be in the way later. When no order reaches the target, each is
// mended like a squeaky wheel: whatever ended above moves to the front, the rest
// follows as before, and the hold is filled again.
//
// Large problems are made small first (planner/packing/part.h). Thousands of buffers that hang
// together are stacked, longest-lived first (planner/packing/best_fit.h), and where some
// end above the target, the columns around them are packed anew. Then time is swept
// forwards and backwards, each taking the tightest gap at its birth or death
// (planner/packing/best_fit.h). Neither looks at more than a buffer's neighbours, so
// no shape of lifetimes makes them slow.
//
// The effort is bounded in work, not in time, so the result is the same on
// every machine: stacking and sweeping are always finished, and so is the first
// order where few hang together; the rest share a bound. Where even the first
// order would take too much, it is left out.

struct GreedyPacking {
  Solution solution;
  std::string order;  // what won: "pressure", "size, mended", "stack", ...
};

/// Packs a problem that passes CheckProblem; stops as soon as the height is
/// `target` or less (its lower bound, as a rule), or with the first packing found
/// after the deadline. Deterministic unless the deadline passes; ties go by index.
/// Never higher than PackLinearly. O(n log n), and `work` that does not grow with
/// n; never a scan over all pairs.
GreedyPacking PackGreedily(const Problem& problem, Bytes target,
                           int64_t work = kGreedyWork, Deadline deadline = {});

class RestartingSearch {
 public:
  /// For a problem that passes CheckProblem. Takes time and memory in
  /// proportion to the pairs of buffers that conflict; see CountConflicts.
  explicit RestartingSearch(const Problem& problem);

  /// Searches for a packing of height at most `capacity`, in at most about
  /// `effort` steps. What was learnt from earlier calls guides later ones.
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

#endif  // STOWAGE_PLANNER_PACKING_RESTARTS_H_
