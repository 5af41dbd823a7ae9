#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_BOUND_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_BOUND_H_

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

#include <vector>

#include "base/bytes.h"
#include "base/index.h"
#include "ir/uses.h"
#include "planner/fit/recompute/rehearsal.h"

namespace stowage::fit {

/// What is stored while one node runs, chosen by a price.
struct Tradeoff {
  double cost = 0;          // to make again what is not stored
  Bytes stored = 0;         // of what can be chosen
  std::vector<Fate> fates;  // in the gaps that the time is in
};

class RecomputeBound {
 public:
  /// Both must outlive this. What the rehearsal runs afterwards does not matter.
  /// Linear in values and operands.
  RecomputeBound(const Graph& graph, const Rehearsal& rehearsal);

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
  const Rehearsal& rehearsal_;
  const Uses& uses_;
  std::vector<Bytes> forced_;  // per node
};

/// The nodes at which most is alive in the latest run of `rehearsal`, one in each
/// of `count` stretches of it, fewer where fewer nodes ran; the fullest of all
/// first. Times are not nodes: a view that nothing wants is not run.
std::vector<NodeId> FullestTimes(const Rehearsal& rehearsal, int count);

/// The least extra cost that the tradeoffs of a time allow when `free`
/// bytes can be chosen; infinite when even the least that can be stored is
/// more.
double LeastCost(const std::vector<Tradeoff>& tradeoffs, Bytes free);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_BOUND_H_
