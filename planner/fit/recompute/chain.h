#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_

// Structure of the forward graph that says what to recompute: chains of equal pieces with their
// optimal schedules (FindChain, Revolve), and minimum cuts with the bounds that they prove
// (RecomputeBound).
//
// If a single value is all that later forward nodes read of earlier ones, forward has a *border*.
// The nodes between two borders read nothing before the first one but leaves. If such stretches
// repeat, one or more at a time, with nodes of the same ops and types, they are the *pieces* of a
// chain, and the borders between pieces its states: each is computed from the one before at the
// same cost. Backward visits the pieces last to first. It reads borders, and possibly *inner*
// values of a piece, which are then recomputed from the border before it.
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
    /// The nodes that compute the border after it from the one before it, without views.
    std::vector<NodeId> to_border = {};
    /// The nodes that compute its inner values; empty if backward reads none.
    std::vector<NodeId> to_inner = {};
    /// The first node that reads an inner value or the border before the piece, if dropped.
    NodeId stage = kNoNode;
  };
  std::vector<Piece> pieces;
  /// The first node after forward that reads the last border, if any.
  NodeId last_stage = kNoNode;

  /// The number of borders that backward reads, including that before the first piece.
  int64_t states() const {
    return static_cast<int64_t>(pieces.size()) +
           (last_stage == kNoNode ? 0 : 1);
  }
  /// The recomputations with `places` borders in memory at a time, beside the one being
  /// computed. Inner values of the last piece are kept.
  Script Again(int64_t places) const;
  /// The length of Again(places).
  int64_t NodesAgain(int64_t places) const;
};

/// The chain that covers the most forward nodes; nothing if there are not three equal pieces in a
/// row, or backward does not read them last to first. Linear in the nodes and their operands,
/// for each of up to 64 stretches in a piece.
std::optional<Chain> FindChain(const Graph& graph,
                               const Simulation& simulation);

// The optimal order in which to recompute the states of a chain, so that they can be read last
// first with only some in memory at a time (A. Griewank and A. Walther, "Algorithm 799:
// Revolve", ACM Transactions on Mathematical Software 26(1), 2000). State 0 is always in memory;
// each other state is computed from the one before it. A few states are kept as the chain runs;
// those between two of them are recomputed from the first, and some of them kept in turn. With c
// places for states, including state 0 but not the state being computed, l states take
//
//   t(l, c) = r l - beta(c + 1, r - 1),  beta(s, r) = (s + r)! / (s! r!),
//
// steps, where r is the only number with beta(c, r - 1) < l <= beta(c, r); no order takes fewer
// (their Theorem 1). The first l - 1 of these steps are the chain itself.
//
//   RevolveSteps(1000, 10) - 999;           // 2,637 states are recomputed
//   for (const RevolveStep& step : RevolveStepsAgain(1000, 10)) {
//     step.made;  // is computed from state step.made - 1
//     step.read;  // is read next
//   }

/// t(states, places), including the first run of the chain. Preconditions: both are positive.
/// Linear in the result divided by `states`.
int64_t RevolveSteps(int64_t states, int64_t places);

/// State `made` is recomputed, on the way to state `read`, which is read next.
struct RevolveStep {
  int64_t read = 0;
  int64_t made = 0;
};

/// The recomputations in order; state states - 1 is read before all of them. A state is in memory
/// until it is read, or until its last use before it is recomputed. Linear in the result.
std::vector<RevolveStep> RevolveStepsAgain(int64_t states, int64_t places);

// A lower bound on the extra cost of a budget, over all recomputations that keep the order of
// the nodes.
//
// Consider the time at which node t runs. Each value made before, gradients included, that is
// read at t or later is stored at that time, or recomputed after it unless a param that its node
// reads has been updated by then; recomputing it requires its operands, stored or recomputed. The
// stored values have to fit beside those that must be live: the operands, results and workspace
// of t, outputs, and values that cannot be recomputed. At a price per byte, the cheapest choice
// is a minimum cut, by which PyTorch partitions joint graphs into forward and backward. By weak
// duality its cost less the price of the free bytes is a lower bound on the extra cost at every
// price; the best price is found like a root. The cuts are also good candidates for what to
// keep, which Tradeoffs lists.

/// The values stored while one node runs, at some price per byte.
struct Tradeoff {
  double cost = 0;          // of recomputing the others
  Bytes stored = 0;         // of values with a choice
  std::vector<Fate> fates;  // in the gaps that the time is in
};

class RecomputeBound {
 public:
  /// Both must outlive this; later runs of the simulation have no effect. Linear in values and
  /// operands.
  RecomputeBound(const Graph& graph, const Simulation& simulation);

  /// The bytes that must be live while `time` runs, whatever is recomputed.
  Bytes Forced(NodeId time) const { return forced_[Index(time)]; }
  /// The most bytes that must be live at any time, if only forward values, or also gradients,
  /// may be recomputed. Linear, likewise.
  Bytes MostForced(bool gradients) const;

  /// The convex hull of all (stored, cost) that can be chosen for `time`, from
  /// everything stored to as little as can be. A cut for each corner.
  std::vector<Tradeoff> Tradeoffs(NodeId time) const;
  /// The last corner's bytes: as little as can be. One cut.
  Bytes LeastStored(NodeId time) const;

 private:
  // Whether the value, whose node has run, can be stored or recomputed for readers after `time`.
  bool IsChosen(ValueId id) const;
  std::vector<Bytes> FindForced(bool gradients) const;
  Tradeoff Cut(NodeId time, double cost_per_byte) const;

  const Graph& graph_;
  const Simulation& simulation_;
  const Uses& uses_;
  std::vector<Bytes> forced_;  // per node
};

/// The nodes with the most live bytes in the latest run of `simulation`, one in each of `count`
/// equal stretches of it, or fewer if fewer nodes ran; the peak first.
std::vector<NodeId> FullestTimes(const Simulation& simulation, int count);

/// The least extra cost by the tradeoffs of a time if `free` bytes are left for stored values;
/// infinite if the smallest set is larger.
double LeastCost(const std::vector<Tradeoff>& tradeoffs, Bytes free);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_
