#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_CLIMB_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_CLIMB_H_

// The searches for what to recompute in steps that are too large for an exact search. They
// lower the peak towards a series of targets by changing fates (simulation.h), of single
// values (Climb) and of whole classes of values (ClassClimb), and collect the best candidates
// in a Frontier. Effort is counted in nodes simulated, which makes searches deterministic.
//
//   Frontier frontier(simulation, /*on_try=*/{});
//   frontier.Extend(40'000'000);
//   frontier.Try(simulation.AsGiven());
//   const auto classes = FindClasses(graph, simulation, gaps);
//   Climb climb(graph, simulation, classes, frontier);
//   climb.Down(frontier.latest().peak);
//   frontier.points();

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {

/// The Pareto frontier of peak memory and recomputation that a search has found so far, and
/// the effort that it has left. A simulated candidate becomes a point unless some point is at
/// least as good in both, and removes the points that it is at least as good as.
class Frontier {
 public:
  struct Point {
    double cost = 0;               // of recomputation
    std::vector<Fate> fates = {};  // empty if a script was tried
    Script script = {};            // empty if fates were
  };
  struct Outcome {
    Bytes peak = 0;
    double cost = 0;
  };

  /// `simulation` must outlive this. `on_try`, if any, is called with every candidate.
  Frontier(Simulation& simulation, std::function<void()> on_try)
      : simulation_(simulation), on_try_(std::move(on_try)) {}

  /// Simulates a candidate, and adds it to the frontier. False if it cannot run, or if the
  /// effort is spent. Scripts are simulated whatever effort is left, and take none.
  bool Try(const std::vector<Fate>& fates);
  bool Try(const Script& script);
  /// Try, of a candidate that the next ones differ little from (Simulation::RunBase).
  bool TryBase(const std::vector<Fate>& fates);
  void Add(Bytes peak, Point point);

  /// Try, but a candidate that was tried before is not simulated again: afterwards only
  /// `latest` is known, and Excess and Worth are not. Precondition: the simulation's
  /// SetStaysFrom came before the first candidate with Fate::kRecomputedLate.
  bool TryAgain(const std::vector<Fate>& fates);

  /// Of the latest candidate that could run.
  const Outcome& latest() const { return latest_; }
  /// The latest candidate's live bytes above `target`, summed over time.
  double Excess(Bytes target) const;
  /// The decrease from `excess`, of a candidate with the outcome `before`, to the latest
  /// candidate's, per operation that this adds; at least 0.
  double Worth(const Outcome& before, double excess, Bytes target) const;

  /// By peak; cost falls as the peak rises.
  const std::map<Bytes, Point>& points() const { return points_; }
  std::map<Bytes, Point> TakePoints() { return std::move(points_); }

  /// Allows `nodes` more nodes than have been simulated.
  void Extend(int64_t nodes) { max_nodes_ = nodes_ + nodes; }
  bool is_spent() const { return nodes_ > max_nodes_; }
  int64_t nodes() const { return nodes_; }
  int64_t max_nodes() const { return max_nodes_; }

 private:
  // What a simulation found, and the effort that it took.
  struct Tried {
    Outcome outcome;
    int64_t nodes = 0;  // -1: it cannot run
  };

  bool Try(const std::vector<Fate>& fates, bool is_base);

  Simulation& simulation_;
  const std::function<void()> on_try_;
  std::map<Bytes, Point> points_;
  std::unordered_map<uint64_t, Tried> tried_;  // by a hash of the fates
  Outcome latest_;
  int64_t nodes_ = 0;
  int64_t max_nodes_ = 0;
};

/// Classes of the gaps at the given, ascending places in simulation.gaps(). Two gaps are of one
/// class if the nodes that produce their values, and all nodes up to a distance of two, are
/// equal but for names. 48 equal layers have about as many classes as one layer has values, so
/// a search over classes does not grow with the depth. Members and classes are in the order of
/// the gaps. Linear in values and operands.
std::vector<std::vector<size_t>> FindClasses(const Graph& graph,
                                             const Simulation& simulation,
                                             std::span<const size_t> gaps);

/// A ladder divides the peak of the step as given into this many targets.
constexpr int kTargets = 64;

/// Lowers the peak by changing the fates of single values. At each target, the next value to
/// drop is the one that frees the most bytes above the target, summed over time, per operation
/// of recomputation. Once the target is met, values are kept again as far as it allows. Only
/// the first and the last member of each class are tried. If no single change helps,
/// combinations of changes at the peak are tried.
class Climb {
 public:
  /// All must outlive this. `classes` hold the gaps that may change.
  Climb(const Graph& graph, const Simulation& simulation,
        const std::vector<std::vector<size_t>>& classes, Frontier& frontier)
      : graph_(graph),
        simulation_(simulation),
        classes_(classes),
        frontier_(frontier) {}

  /// Meets all targets below `start`, the peak of the step as given, each from the nearest
  /// points of the frontier, with at most half of the effort; then lowers the peak further in
  /// ever smaller steps.
  void Down(Bytes start);

  /// Meets the lower targets from the lowest point found, with less effort (lazy greedy): a
  /// move is tried again only if its last worth exceeds the best of the round.
  void Lazily(Bytes start);

  /// Searches for points between neighbours on the frontier whose costs differ much.
  void FillSteps(Bytes start);

  /// Keeps values again at each point of the frontier, as far as its peak allows.
  void RefillPoints(Bytes start);

  /// Keeps values again as far as the target allows, the largest saving first. A move that
  /// does not fit or saves less than others is not tried again.
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

  // Calls `visit` with the first and the last member of each class that have the given fate;
  // `visit` may change the fate of the member.
  template <typename Visit>
  void ForEachMove(const std::vector<Fate>& fates, Fate fate,
                   Visit visit) const {
    for (const std::vector<size_t>& members : classes_) {
      const auto has_fate = [&](size_t gap) { return fates[gap] == fate; };
      const auto first = std::ranges::find_if(members, has_fate);
      if (first == members.end()) continue;
      const size_t last =
          *std::find_if(members.rbegin(), members.rend(), has_fate);
      visit(*first);
      if (last != *first) visit(last);
    }
  }

  const Graph& graph_;
  const Simulation& simulation_;
  const std::vector<std::vector<size_t>>& classes_;
  Frontier& frontier_;
  int64_t nodes_untangling_ = 0;
};

/// Lowers the peak by changing the fates of whole classes.
///
/// Near the smallest budgets every layer reaches the same peak in its backward pass, and no
/// change of a single value lowers it: recomputing a value in one layer frees memory for the
/// values kept *between* layers only if every layer does so. A move therefore drops all
/// members of a class, or all but every second, third, ... one. Values inside the pieces of a
/// chain (chain.h) are recomputed late, so that recomputing a border of the chain does not
/// keep the insides of earlier pieces. The memory left at a target keeps single values again.
class ClassClimb {
 public:
  /// All must outlive this. `classes` hold the gaps that may change.
  ClassClimb(const Graph& graph, Simulation& simulation,
             const std::vector<std::vector<size_t>>& classes,
             Frontier& frontier, Climb& climb);

  /// Meets all targets below `start`, the peak of the step as given, beginning with the fates
  /// `given`, until the effort is spent or no move lowers the peak.
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

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_CLIMB_H_
