#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_CLIMB_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_CLIMB_H_

// Climbs down from one peak to a lower one by changing the fates of single values.
//
// At each target, the value to drop next is the one that frees the most bytes above the
// target, summed over time, per operation of recomputation. Once the target is met, values
// are kept again as far as the target allows. Of each class (planner/fit/recompute/classes.h),
// the first and the last value are tried. Where no single change helps, combinations of
// changes at the peak are tried.
//
//   Climb climb(graph, simulation, classes, frontier);
//   climb.Down(frontier.latest().peak);

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/fit/recompute/classes.h"
#include "planner/fit/recompute/frontier.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {

/// A ladder divides the peak of the step as given into this many targets.
constexpr int kTargets = 64;

class Climb {
 public:
  /// All must outlive this. `classes` hold the gaps that may change.
  Climb(const Graph& graph, const Simulation& simulation,
        const std::vector<std::vector<size_t>>& classes, Frontier& frontier)
      : graph_(graph),
        simulation_(simulation),
        classes_(classes),
        frontier_(frontier) {}

  /// Goes through all targets below `start`, the peak of the step as given, starting at
  /// each from the nearest points of the frontier; then as low as it gets, in ever smaller
  /// steps. Ladder targets take at most half of the effort.
  void Down(Bytes start);

  /// Goes on to the lower targets from the lowest point found. Each round tries those moves
  /// alone that were worth more in an earlier round than the best of this one.
  void Lazily(Bytes start);

  /// Where the cost rises steeply from one point of the frontier to the next, searches for
  /// points in between.
  void FillSteps(Bytes start);

  /// From the points of the frontier on, keeps values again: as far as each point's peak
  /// allows, the largest saving first.
  void RefillPoints(Bytes start);

  /// Keeps values again as far as the target allows, the largest saving first. A move that
  /// saved too little, or took too many bytes, is not tried again.
  void KeepBest(Bytes target, std::vector<Fate>* fates);

 private:
  // A change of one fate, and its worth when it was tried last.
  struct Move {
    size_t gap;
    Fate fate;
    double worth;
  };

  enum class Greedy { kThorough, kLazy };

  bool Reach(Bytes target, std::vector<Fate>* fates,
             Greedy greedy = Greedy::kThorough);
  void Polish(Bytes target, std::vector<Fate>* fates);
  NodeId FullestStage() const;
  std::vector<size_t> Tangle(NodeId stage) const;
  std::vector<Fate> WithChainEachTime(std::vector<Fate> fates,
                                      size_t gap) const;
  bool Untangle(Bytes target, std::vector<Fate>* fates);
  bool IsTooExpensive(double cost) const { return cost > simulation_.cost(); }

  template <typename Visit>
  void ForEachMove(const std::vector<Fate>& fates, Fate fate,
                   Visit visit) const {
    ForEachOfFate(classes_, fates, fate, visit);
  }

  const Graph& graph_;
  const Simulation& simulation_;
  const std::vector<std::vector<size_t>>& classes_;
  Frontier& frontier_;
  int64_t nodes_untangling_ = 0;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_CLIMB_H_
