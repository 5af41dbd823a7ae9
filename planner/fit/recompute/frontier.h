#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_FRONTIER_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_FRONTIER_H_

// The Pareto frontier of peak memory and recomputation that a search has found so far,
// and the effort that the search has left.
//
// Each candidate is simulated (planner/fit/recompute/simulation.h). A candidate that no
// point equals or beats in both peak and cost becomes a point, and removes the points that
// it equals or beats. Effort is counted in nodes simulated, which makes searches
// deterministic.
//
//   Frontier frontier(simulation, /*on_try=*/{});
//   frontier.Extend(40'000'000);
//   if (frontier.Try(simulation.AsGiven())) frontier.latest().peak;

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {

class Frontier {
 public:
  struct Point {
    double cost = 0;  // of recomputation
    // Empty if the script was not made from fates.
    std::vector<Fate> fates = {};
    Script script = {};
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
  void Add(Bytes peak, Point point);

  /// Of the latest candidate that could run.
  const Outcome& latest() const { return latest_; }
  /// The latest candidate's live bytes above `target`, summed over time.
  double Excess(Bytes target) const;
  /// By how much less that is than `excess`, that of the candidate with outcome `before`, per
  /// operation that the latest adds to it; 0 if it is not less.
  double Worth(const Outcome& before, double excess, Bytes target) const;

  /// By peak; cost falls as the peak rises.
  const std::map<Bytes, Point>& points() const { return points_; }

  /// Allows `nodes` more nodes than have been simulated.
  void Extend(int64_t nodes) { max_nodes_ = nodes_ + nodes; }
  bool is_spent() const { return nodes_ > max_nodes_; }
  int64_t nodes() const { return nodes_; }
  int64_t max_nodes() const { return max_nodes_; }

 private:
  Simulation& simulation_;
  const std::function<void()> on_try_;
  std::map<Bytes, Point> points_;
  Outcome latest_;
  int64_t nodes_ = 0;
  int64_t max_nodes_ = 0;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_FRONTIER_H_
