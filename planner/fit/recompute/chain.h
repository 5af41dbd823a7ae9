#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_

// Finds structure in the forward graph that determines good schedules of recomputation. FindChain
// finds chains of equal segments, for which optimal schedules are known (RevolveStepsAgain).
// RecomputeBound computes minimum cuts, which determine values to keep and also yield lower bounds.
//
// The forward graph has a *border* after a node if later forward nodes read only one value of those
// that are computed up to this node. This value is also called the border. Between two borders,
// nodes read only leaves and the first of the two borders. If such intervals, or groups of them,
// repeat with the same ops and types, they are the segments (Chain::Piece) of a *chain*. The
// borders between segments are the states of the chain. Each state is computed from the state
// before it, at the same cost. The backward pass visits the segments from the last to the first. It
// reads borders and possibly *inner* values of a segment, which are recomputed from the border
// before the segment.
//
//   if (std::optional<Chain> chain = FindChain(step, simulation)) {
//     simulation.Run(chain->Again(/*places=*/8));
//   }

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "ir/graph.h"
#include "ir/uses.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {

struct Chain {
  struct Piece {
    /// The nodes, without views, that compute the border after the segment from the border before
    /// the segment.
    std::vector<NodeId> to_border = {};
    /// The nodes, without views, that compute the inner values that the backward pass reads.
    std::vector<NodeId> to_inner = {};
    /// The first node after the forward pass that reads the border before the segment or an inner
    /// value. kNoNode if there is none, which is possible only for the first segment.
    NodeId stage = kNoNode;
  };
  std::vector<Piece> pieces;  // The segments, in the order of the forward pass.
  /// The first node after the forward pass that reads the last border. It is kNoNode if there is
  /// none, or if the node does not run before the stage of the last segment.
  NodeId last_stage = kNoNode;

  /// Returns the number of borders that the backward pass reads, including the one before the first
  /// segment.
  int64_t states() const {
    return static_cast<int64_t>(pieces.size()) +
           (last_stage == kNoNode ? 0 : 1);
  }
  /// Returns the recomputations if `places` borders can be in memory at a time, in addition to the
  /// border that is being computed. Inner values of the last segment are kept. Requires
  /// `places >= 1`.
  Script Again(int64_t places) const;
  /// Returns the number of recomputations of Again(places), in constant memory. The result is exact
  /// if the backward pass reads the same inner values of every segment, and otherwise an estimate.
  int64_t NodesAgain(int64_t places) const;
};

/// Returns the chain that covers the most intervals between borders. `simulation` must be of
/// `graph`. Returns nullopt if no three consecutive segments are equal, or if the backward pass
/// does not visit them from the last to the first. Linear in the number of nodes and operands, plus
/// at most 64 times the number of intervals.
std::optional<Chain> FindChain(const Graph& graph,
                               const Simulation& simulation);

// RevolveStepsAgain computes the optimal order in which to recompute the states of a chain, if the
// states are read from the last to the first and only a few of them are in memory at a time (A.
// Griewank and A. Walther, "Algorithm 799: Revolve", ACM Transactions on Mathematical Software
// 26(1), 2000). State 0 is always in memory. Each other state is computed from the state before it.
// A few states are kept while the chain runs. The states between two kept states are recomputed
// from the first of the two, and some of them are kept in turn. Let c be the number of states in
// memory, including state 0 but not the state that is being computed. l states require
//
//   t(l, c) = r l - beta(c + 1, r - 1),  beta(s, r) = (s + r)! / (s! r!),
//
// steps, where r is the only number with beta(c, r - 1) < l <= beta(c, r). No order requires fewer
// steps (Theorem 1 of the paper). The first l - 1 of these steps are the run of the chain itself.
//
//   RevolveSteps(1000, 10) - 999;           // 2,637 states are recomputed
//   for (const RevolveStep& step : RevolveStepsAgain(1000, 10)) {
//     step.made;  // the state to compute from state step.made - 1
//     step.read;  // the state that is read next
//   }

/// Returns t(states, places), which includes the first run of the chain. Requires `states > 0` and
/// `places > 0`. Evaluates beta about r times, where r is about the result divided by `states`.
int64_t RevolveSteps(int64_t states, int64_t places);

/// A recomputation of state `made`. State `read` is the state that is read next.
struct RevolveStep {
  int64_t read = 0;
  int64_t made = 0;
};

/// Returns the recomputations of a chain of `states` states with `places` states in memory, in
/// order. Requires `states > 0` and `places > 0`. State `states - 1` is read before the first
/// recomputation. A state is in memory until it is read, or until its last use before it is
/// recomputed. Linear in the length of the result.
std::vector<RevolveStep> RevolveStepsAgain(int64_t states, int64_t places);

// RecomputeBound computes a lower bound on the extra cost of fitting a budget, over all
// recomputations that keep the order of the nodes.
//
// Consider the time at which node t runs. Each value that is computed before t, including
// gradients, and read at t or later must be stored at this time or recomputed after it. The value
// cannot be recomputed if a param that its node reads has been updated by then. Recomputing it
// requires its operands, which are stored or recomputed in turn. The stored values must fit in
// memory together with the values that must be live. These are the operands, results and workspace
// of t, the outputs, and the values that cannot be recomputed.
//
// If each stored byte has a price, the cheapest choice is a minimum cut. PyTorch uses the same cut
// to partition joint graphs into forward and backward. By weak duality, the cost of the cut minus
// the price of the free bytes is a lower bound on the extra cost, at every price. The best price is
// found by a search similar to the secant method. The cuts are also good candidates for
// the values to keep. RecomputeBound::Tradeoffs returns them.

/// The values that are stored while one node runs, for one price per byte.
struct Tradeoff {
  double cost = 0;  // The cost of recomputing the other values.
  /// The bytes of stored values that could also be recomputed.
  Bytes stored = 0;
  /// The fates that give this choice, by gap (Simulation::gaps).
  std::vector<Fate> fates;
};

class RecomputeBound {
 public:
  /// `graph` and `simulation`, a simulation of `graph`, must outlive the object. Runs of the
  /// simulation have no effect on the object. Linear in the number of values and operands.
  RecomputeBound(const Graph& graph, const Simulation& simulation);

  /// Returns the bytes that must be live while node `time` runs, whichever values are recomputed.
  Bytes Forced(NodeId time) const { return forced_[Index(time)]; }
  /// Returns the maximum, over all nodes, of the bytes that must be live while the node runs.
  /// Gradients may be recomputed only if `gradients` is set. Linear in the number of values and
  /// operands.
  Bytes MostForced(bool gradients) const;

  /// Returns the corners of the convex hull of all pairs (stored, cost) that can be chosen for node
  /// `time`. The first corner stores all values, and the last corner stores the fewest bytes
  /// possible. Computes about two cuts for each corner.
  std::vector<Tradeoff> Tradeoffs(NodeId time) const;
  /// Returns the fewest bytes that can be stored while node `time` runs, as at the last corner of
  /// Tradeoffs. Computes one cut.
  Bytes LeastStored(NodeId time) const;

 private:
  // Returns whether the value is optional, that is, whether it can be stored or recomputed. Leaves,
  // outputs and views are not optional.
  bool IsChosen(ValueId id) const;
  std::vector<Bytes> FindForced(bool gradients) const;
  Tradeoff Cut(NodeId time, double cost_per_byte) const;

  const Graph& graph_;
  const Simulation& simulation_;
  const Uses& uses_;
  std::vector<Bytes> forced_;  // by node
};

/// Returns nodes with many live bytes in the latest run of `simulation`. The run is divided into
/// `count` equal intervals, or fewer if fewer nodes ran. The result contains the node with the most
/// live bytes of each interval. If this node is recomputed, it is represented by the node for which
/// it runs. The node at the peak comes first.
std::vector<NodeId> FullestTimes(const Simulation& simulation, int count);

/// Returns a lower bound on the extra cost if `free` bytes are available for stored values. The
/// bound interpolates between `tradeoffs`, which must be a result of RecomputeBound::Tradeoffs.
/// Returns infinity if even the smallest set of stored values is larger than `free`.
double LeastCost(const std::vector<Tradeoff>& tradeoffs, Bytes free);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_
