#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_

// Chains of equal pieces in the forward graph, and what Revolve
// (planner/fit/recompute/chain.h) runs again in them.
//
// Where a single value is all that later forward nodes read of earlier ones, forward
// has a *border*. Between two borders lie nodes that read nothing before the first but
// leaves. Where such stretches repeat, one or more of them at a time, node by node of
// the same ops and types, they are the *pieces* of a chain, and the borders between
// pieces its states: each is made of the one before it at the same cost. Backward goes
// through the pieces last to first. It reads borders, and it may read *inner* values of
// a piece, which are then made of the border before it, right before that.
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
    /// What makes the border behind it of that before it, in order, views left out.
    std::vector<NodeId> to_border = {};
    /// What makes its inner values; nothing where backward reads none.
    std::vector<NodeId> to_inner = {};
    /// The first node that wants an inner value or the border before the piece, if it
    /// was dropped.
    NodeId stage = kNoNode;
  };
  std::vector<Piece> pieces;
  /// The first node behind forward that reads the last border, if any does.
  NodeId last_stage = kNoNode;

  /// The borders that backward wants, that before the first piece included.
  int64_t states() const {
    return static_cast<int64_t>(pieces.size()) +
           (last_stage == kNoNode ? 0 : 1);
  }
  /// What runs again where `places` borders are there at a time, beside the one that
  /// is being made. Of the last piece, inner values are kept.
  Script Again(int64_t places) const;
  /// How many nodes that are, without making the list.
  int64_t NodesAgain(int64_t places) const;
};

/// The chain that takes in the most forward nodes; nothing where there are not three
/// equal pieces in a row, or where backward does not want them last to first. Linear
/// in the nodes and their operands, for each of up to 64 stretches in a piece.
std::optional<Chain> FindChain(const Graph& graph,
                               const Simulation& simulation);

// In what order to make the states of a chain again, so that they can be read last
// first while only some are there at a time.
//
// State 0 is always there; each other is made of the one before it. To read them in
// reverse, a few are kept as the chain runs, and what lies between two of these is
// made again from the first, some of it kept in its turn: Revolve (A. Griewank and
// A. Walther, "Algorithm 799: Revolve", ACM Transactions on Mathematical Software
// 26(1), 2000). With c places for states, state 0's included and that of the state
// that is being made left out, l states take
//
//   t(l, c) = r l - beta(c + 1, r - 1),  beta(s, r) = (s + r)! / (s! r!),
//
// steps, r being the only number with beta(c, r - 1) < l <= beta(c, r); no order
// takes fewer (their Theorem 1). Of these steps the first l - 1 are the chain itself.
//
//   RevolveSteps(1000, 10) - 999;           // made again: 2,637 states
//   for (const RevolveStep& step : RevolveStepsAgain(1000, 10)) {
//     step.made;  // is made of state step.made - 1, right before
//     step.read;  // is read
//   }

/// t(states, places), the first run of the chain included. Preconditions: both are
/// positive. Takes time with the result divided by `states`.
int64_t RevolveSteps(int64_t states, int64_t places);

/// State `made` is made again, on the way to state `read`, which is read next.
struct RevolveStep {
  int64_t read = 0;
  int64_t made = 0;
};

/// What is made again, in order; state states - 1 is read before any of it. A state
/// has its place until it was read, or was the start of what was made for the last
/// time before it is made again. Linear in the result.
std::vector<RevolveStep> RevolveStepsAgain(int64_t states, int64_t places);

// How little extra cost a budget can possibly have, whatever is recomputed
// and when, as long as the nodes of the step run in their order.
//
// Look at the moment when node t runs. Each value made before, a gradient too,
// and wanted at t or later is stored at that moment or made again after it,
// unless a param that its node reads has been updated by then; making it again
// wants the operands of its node, stored or made again. What is stored has to fit
// beside what must be there: the operands, results and scratch of t, outputs, and
// what cannot be made again. Priced at some cost a byte, the cheapest choice of what to store is a minimum cut, the one that
// partitions joint graphs into forward and backward in PyTorch; by weak duality
// its cost, less the price of the bytes that there are, is a lower bound on the
// extra cost at every price, and the best price is found like a root.
//
// The cuts are also the best guesses at what to keep: Tradeoffs lists them.

/// What is stored while one node runs, chosen by a price.
struct Tradeoff {
  double cost = 0;          // to make again what is not stored
  Bytes stored = 0;         // of what can be chosen
  std::vector<Fate> fates;  // in the gaps that the time is in
};

class RecomputeBound {
 public:
  /// Both must outlive this. What the simulation runs afterwards does not matter.
  /// Linear in values and operands.
  RecomputeBound(const Graph& graph, const Simulation& simulation);

  /// What must be packed while `time` runs, whatever is recomputed.
  Bytes Forced(NodeId time) const { return forced_[Index(time)]; }
  /// The most that must be packed at any time, where forward values alone may be
  /// made again, or gradients too. Linear, likewise.
  Bytes MostForced(bool gradients) const;

  /// The convex hull of all (stored, cost) that can be chosen for `time`, from
  /// everything stored to as little as can be. A cut for each corner.
  std::vector<Tradeoff> Tradeoffs(NodeId time) const;
  /// The last corner's bytes: as little as can be. One cut.
  Bytes LeastStored(NodeId time) const;

 private:
  // Whether the value is stored or made again when it is wanted after `time`, the
  // node that makes it having run.
  bool IsChosen(ValueId id) const;
  std::vector<Bytes> FindForced(bool gradients) const;
  Tradeoff Cut(NodeId time, double cost_per_byte) const;

  const Graph& graph_;
  const Simulation& simulation_;
  const Uses& uses_;
  std::vector<Bytes> forced_;  // per node
};

/// The nodes at which most is alive in the latest run of `simulation`, one in each
/// of `count` stretches of it, fewer where fewer nodes ran; the fullest of all
/// first. Times are not nodes: a view that nothing wants is not run.
std::vector<NodeId> FullestTimes(const Simulation& simulation, int count);

/// The least extra cost that the tradeoffs of a time allow when `free`
/// bytes can be chosen; infinite when even the least that can be stored is
/// more.
double LeastCost(const std::vector<Tradeoff>& tradeoffs, Bytes free);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_
