#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_CLIMB_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_CLIMB_H_

// Searches for the values to recompute in steps that are too large for an exact search.
//
// The searches lower the peak to a series of targets by changing the fates of values, that is, by
// deciding which values are recomputed and when (planner/fit/recompute/simulation.h). A candidate
// is a fate for every gap. Climb changes the fates of single values. ClassClimb changes the fates
// of whole classes of values. Both collect the best candidates in a Frontier. Effort is counted in
// simulated nodes, so the searches are deterministic.
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

/// The Pareto frontier of peak memory and recomputation cost that a search has found so far, and
/// the search effort that remains. A simulated candidate becomes a point unless an existing point
/// has a peak and a cost that are both no higher. A new point replaces all points whose peak and
/// cost are both no lower.
class Frontier {
 public:
  struct Point {
    double cost = 0;               // The extra cost of recomputation.
    std::vector<Fate> fates = {};  // Empty if the candidate is a script.
    Script script = {};            // Empty if the candidate consists of fates.
  };
  struct Outcome {
    Bytes peak = 0;
    double cost = 0;
  };

  /// `simulation` must outlive the frontier. If set, `on_try` is called for every candidate. The
  /// effort is spent until Extend is called.
  Frontier(Simulation& simulation, std::function<void()> on_try)
      : simulation_(simulation), on_try_(std::move(on_try)) {}

  /// Simulates the candidate `fates` and adds it to the frontier. Returns false if the candidate
  /// cannot run, or if the effort is spent.
  bool Try(const std::vector<Fate>& fates);
  /// Simulates `script` and adds it to the frontier. Returns false if it cannot run. Scripts do not
  /// use effort, and are simulated even if the effort is spent.
  bool Try(const Script& script);
  /// Like Try, for a candidate from which the next candidates differ little (Simulation::RunBase).
  bool TryBase(const std::vector<Fate>& fates);
  /// Adds a point without a simulation, unless an existing point is at least as good.
  void Add(Bytes peak, Point point);

  /// Like Try, but does not simulate a candidate that was tried before. After such a candidate,
  /// only latest() is valid, and Excess() and Worth() are not. Simulation::SetStaysFrom must not be
  /// called after the first candidate with Fate::kRecomputedLate.
  bool TryAgain(const std::vector<Fate>& fates);

  /// Returns the outcome of the latest candidate that could run.
  const Outcome& latest() const { return latest_; }
  /// Returns the excess of the latest candidate: the number of live bytes above `target`, summed
  /// over all times.
  double Excess(Bytes target) const;
  /// Returns how much the latest candidate lowers the excess per unit of cost that it adds, or 0 if
  /// it does not lower it. The change is relative to a candidate with the outcome `before` and the
  /// excess `excess`.
  double Worth(const Outcome& before, double excess, Bytes target) const;

  /// Returns the points by peak. The cost falls as the peak rises.
  const std::map<Bytes, Point>& points() const { return points_; }
  /// Moves the points out of the frontier.
  std::map<Bytes, Point> TakePoints() { return std::move(points_); }

  /// Sets the remaining effort to `nodes` simulated nodes.
  void Extend(int64_t nodes) { max_nodes_ = nodes_ + nodes; }
  bool is_spent() const { return nodes_ > max_nodes_; }
  /// Returns the number of simulated nodes so far.
  int64_t nodes() const { return nodes_; }
  /// Returns the number of simulated nodes after which the effort is spent.
  int64_t max_nodes() const { return max_nodes_; }

 private:
  // The outcome of a simulation, and the effort that it used.
  struct Tried {
    Outcome outcome;
    int64_t nodes = 0;  // -1 if the candidate cannot run
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

/// Divides gaps into classes and returns the members of each class. `gaps` must be ascending
/// indices in simulation.gaps(). Two gaps belong to one class if they have the same position among
/// the gaps of their values, and the nodes around these values, up to a distance of two, have the
/// same ops and types. 48 equal layers have about as many classes as one layer has values, so the
/// time of a search over classes does not grow with the depth of the network. Classes and their
/// members are in the order of `gaps`. Linear in the number of values and operands.
std::vector<std::vector<size_t>> FindClasses(const Graph& graph,
                                             const Simulation& simulation,
                                             std::span<const size_t> gaps);

/// The number of equidistant targets between 0 and the peak of the unmodified step.
constexpr int kTargets = 64;

/// Lowers the peak by changing the fates of single values. For each target, Climb repeatedly makes
/// the change of one fate with the largest Frontier::Worth. Once the peak is within the target,
/// values are kept instead of recomputed as far as the target allows. Only the first and the last
/// member of each class are tried. If no single change lowers the excess, combinations of changes
/// at the peak are tried.
class Climb {
 public:
  /// All arguments must outlive the object. `classes` must contain the gaps whose fates may change.
  Climb(const Graph& graph, const Simulation& simulation,
        const std::vector<std::vector<size_t>>& classes, Frontier& frontier)
      : graph_(graph),
        simulation_(simulation),
        classes_(classes),
        frontier_(frontier) {}

  // In the next functions, `start` is the peak of the unmodified step. The results are points of
  // the frontier.

  /// Lowers the peak to each target below `start`. For each target, the search begins at the
  /// nearest points of the frontier. This phase uses at most half of the effort. A second phase
  /// then lowers the smallest peak further, by smaller and smaller amounts.
  void Down(Bytes start);

  /// Lowers the peak to each target below the smallest peak found, with less effort. The search is
  /// a lazy greedy search: after a change has been simulated, it is simulated in a later round only
  /// if its last worth exceeds the best worth of that round so far.
  void Lazily(Bytes start);

  /// Searches for points between neighbors on the frontier whose costs differ much.
  void FillSteps(Bytes start);

  /// Applies KeepBest to expensive points of the frontier that are not close to each other. The
  /// point with the smallest peak is not changed.
  void RefillPoints(Bytes start);

  /// Changes `fates` so that values are kept instead of recomputed, as far as the peak stays within
  /// `target`. The change that saves the most cost is made first. A change that does not fit is not
  /// tried a second time. After another change has been tried, it is tried in a later round only if
  /// its last saving exceeds the best saving of that round so far.
  void KeepBest(Bytes target, std::vector<Fate>* fates);

 private:
  // A change of one fate, and its worth when it was last tried.
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

  // Calls `visit` with the first and the last member of each class that have the given fate.
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

/// Lowers the peak by changing the fates of whole classes (FindClasses).
///
/// Near the smallest budgets every layer reaches the same peak in its backward pass, and no change
/// of a single value lowers the peak. Recomputing a value in one layer frees memory for the values
/// kept *between* layers only if this value is recomputed in every layer. A move therefore drops
/// all members of a class, or all except every second, third, fourth or sixth member. Values inside
/// the segments of a chain (planner/fit/recompute/chain.h) are recomputed late. When a border of
/// the chain is recomputed, values inside earlier segments are therefore not kept. The memory that
/// remains at a target is used to keep single values.
class ClassClimb {
 public:
  /// All arguments must outlive the object. `classes` must contain the gaps whose fates may change.
  ClassClimb(const Graph& graph, Simulation& simulation,
             const std::vector<std::vector<size_t>>& classes,
             Frontier& frontier, Climb& climb);

  /// Lowers the peak to each target below `start`, the peak of the unmodified step. There are twice
  /// kTargets targets. Begins with the fates `given`, and ends when the effort is spent or no move
  /// lowers the excess.
  void Down(Bytes start, std::vector<Fate> given);

 private:
  // Keeps every `stride`-th member of a class, counted from the last, and gives the other members
  // the fate `fate`. A stride of 0 keeps no member.
  struct Move {
    size_t index;  // index in moves_
    size_t place;  // index in classes_
    Fate fate;
    size_t stride;
    double worth;  // when it was last tried
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
