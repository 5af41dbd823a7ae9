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
#include <vector>

#include "planner/packing/canonical_search.h"
#include "planner/packing/deadline.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

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
