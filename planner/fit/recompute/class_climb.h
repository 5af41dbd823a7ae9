#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_CLASS_CLIMB_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_CLASS_CLIMB_H_

// Climbs down from one peak to a lower one by changing the fates of whole classes.
//
// Near the smallest budgets every layer of a network reaches the same peak in its backward
// pass, and no change of a single value lowers it: a value that is recomputed in one layer
// makes room for the values kept *between* layers only if it is recomputed in every layer.
// So a move changes all members of a class (planner/fit/recompute/classes.h) at once: all
// are dropped, or all but every second, third, ... are. Values inside the pieces of a chain
// of equal pieces (planner/fit/recompute/chain.h) are recomputed late: recomputing a
// dropped border of the chain does not bring back the inner values of the pieces before it.
// With the room that is left at each target, single values are kept again.
//
//   ClassClimb(graph, simulation, classes, frontier, climb).Down(start, given);

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/fit/recompute/climb.h"
#include "planner/fit/recompute/frontier.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {

class ClassClimb {
 public:
  /// All must outlive this. `classes` hold the gaps that may change.
  ClassClimb(const Graph& graph, Simulation& simulation,
             const std::vector<std::vector<size_t>>& classes,
             Frontier& frontier, Climb& climb);

  /// Goes through all targets below `start`, the peak of the step as given, beginning with
  /// the fates `given`, until the effort is spent or no move lowers the peak.
  void Down(Bytes start, std::vector<Fate> given);

 private:
  // Every `stride`-th member of a class is kept, counted from the last; the others get
  // `fate`. A stride of 0 keeps none.
  struct Move {
    size_t index;  // in moves_
    size_t place;  // in classes_
    Fate fate;
    size_t stride;
    double worth;  // when it was tried last
  };

  void FindLateValues();
  Fate Once(size_t gap) const;
  void FindMoves(Bytes min_bytes);
  std::vector<Fate> With(std::vector<Fate> fates, const Move& move) const;
  bool Reach(Bytes target, std::vector<Fate>* fates);

  const Graph& graph_;
  Simulation& simulation_;
  const std::vector<std::vector<size_t>>& classes_;
  Frontier& frontier_;
  Climb& climb_;
  std::vector<Move> moves_;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_CLASS_CLIMB_H_
