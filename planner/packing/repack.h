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
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/packing/part.h"
#include "planner/packing/problem.h"

namespace stowage::packing {

// The hold being filled: which addresses are taken in which columns of time,
// and where the lowest gap is that a new buffer fits in. No list of conflicts
// is ever made; a tree over time answers instead.
//
// Each node of the tree stands for a range of columns and keeps two sets of
// addresses: `across`, taken by buffers that span the whole node (and not its
// parent), and `within`, taken by anything inside the node. A range of columns
// splits into O(log n) nodes. A buffer over that range must avoid what is
// within those nodes and what is across those above them. Since neighbours
// merge, a densely packed stretch of a thousand buffers is one span of
// addresses, stepped over at once.
//
//   Hold hold(columns.count);
//   const Bytes at = hold.LowestFit(range, size, alignment);
//   hold.Occupy(range, at, at + size);

/// A set of addresses: disjoint half-open spans in ascending order, no two of
/// which touch.
class SpanSet {
 public:
  bool empty() const { return spans_.empty(); }
  void Clear() { spans_.clear(); }

  /// Adds [begin, end), begin < end. Returns how many spans it had to move:
  /// all above, at worst.
  int64_t Add(Bytes begin, Bytes end);

  /// A stretch of free addresses, [begin, end).
  struct Gap {
    Bytes begin;
    Bytes end;
    int64_t steps;  // how many spans were stepped over to find it
  };

  /// The lowest gap that begins at a multiple of `alignment` at or above `from`
  /// (itself such a multiple) and holds `size` bytes. The gap above the last
  /// span ends at the largest number. O(log spans + spans stepped over).
  Gap LowestGap(Bytes from, Bytes size, Bytes alignment) const;

 private:
  struct Span {
    Bytes begin;
    Bytes end;
  };
  std::vector<Span> spans_;
};

class Hold {
 public:
  /// An empty hold over columns [0, columns).
  explicit Hold(int32_t columns);

  /// The lowest aligned offset where `size` >= 1 bytes are free in all of
  /// `range`, which is not empty.
  Bytes LowestFit(ColumnRange range, Bytes size, Bytes alignment);

  /// Takes [begin, end) in all of `range`. What is taken stays taken.
  void Occupy(ColumnRange range, Bytes begin, Bytes end);

  /// Empties the hold; keeps its memory for the next filling.
  void Clear();

  /// How much looking LowestFit has done since the hold was built: a measure
  /// of effort that, unlike time, is the same on every machine.
  int64_t work() const { return work_; }

  /// The work, and what Occupy has done: for each set of addresses a step, and
  /// one for every eight spans moved.
  int64_t effort() const { return work_ + occupying_; }

 private:
  struct Node {
    SpanSet across;
    SpanSet within;
  };

  // Calls `inside` for the nodes that `range` splits into, `above` for all
  // nodes above these.
  template <typename Inside, typename Above>
  void VisitNodes(ColumnRange range, Inside inside, Above above) const;

  int32_t leaves_ = 1;       // a power of two
  std::vector<Node> nodes_;  // a heap: the children of k are 2k and 2k + 1
  int64_t work_ = 0;
  int64_t occupying_ = 0;
};

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
