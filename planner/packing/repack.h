#ifndef STOWAGE_PLANNER_PACKING_REPACK_H_
#define STOWAGE_PLANNER_PACKING_REPACK_H_

// A packing that follows its problem: one buffer changes its size, lifetime or
// placement, and the packing is mended instead of made again.
//
//   Repacker repacker(std::move(problem), std::move(packing.solution));
//   Result<RepackKind> kind = repacker.Change(7, changed);
//   repacker.solution();  // a valid packing of the changed problem
//
// The changed buffer, and what it would overlap when its placement is fixed,
// take the lowest gaps; all others stay. That may lose what a packing gains as a
// whole, so there is a rule: above the lower bound, the height may lie by the
// share that it did in the beginning, and 1/256 of the bound more. Where it
// would lie higher, first the stretch of time around whatever ends too high is
// packed anew between the rest, and if that does not do, all is. Where even that
// does not do, its share is what counts from then on.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

enum class RepackKind {
  kMoved,    // what had to move has moved
  kStretch,  // a stretch of time was packed anew
  kAll,      // everything was, by the greedy packer
};

class Repacker {
 public:
  /// For a problem that passes CheckProblem and a valid packing of it; the
  /// capacity is not looked at.
  Repacker(Problem problem, Solution solution);

  const Problem& problem() const { return problem_; }
  const Solution& solution() const { return solution_; }
  Bytes lower_bound() const { return bound_; }

  /// The most that the height may be by the rule above.
  Bytes HighestAllowed() const;

  /// Replaces buffer `index`, which there is, and mends the packing. Error
  /// kInvalidArgument when CheckProblem finds fault with the changed problem;
  /// then nothing has changed. O(n log n) unless all is packed anew: a
  /// millisecond or two for 20,000 buffers.
  Result<RepackKind> Change(size_t index, const Buffer& changed);

 private:
  void Move(size_t index);
  void PlaceLowest(size_t index, const std::vector<bool>& loose);
  bool PackStretch();
  void PackAll();
  void MeasureHeight();
  double ShareAbove() const;

  Problem problem_;
  Solution solution_;
  Bytes bound_ = 0;
  double share_ = 0;  // of the bound, by which the height lay above it
};

}  // namespace stowage::packing

#endif  // STOWAGE_PLANNER_PACKING_REPACK_H_
