#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_

// Chains of equal pieces in the forward graph, and what Revolve
// (planner/fit/recompute/revolve.h) runs again in them.
//
// Where a single value is all that later forward nodes read of earlier ones, forward
// has a *border*. Between two borders lie nodes that read nothing before the first but
// leaves. Where such stretches repeat, one or more of them at a time, node by node of
// the same ops and types, they are the *pieces* of a chain, and the borders between
// pieces its states: each is made of the one before it at the same cost. Backward goes
// through the pieces last to first. It reads borders, and it may read *inner* values of
// a piece, which are then made of the border before it, right before that.
//
//   if (std::optional<Chain> chain = FindChain(step, rehearsal)) {
//     rehearsal.Run(chain->Again(/*places=*/8));
//   }

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "planner/fit/recompute/rehearsal.h"

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
std::optional<Chain> FindChain(const Graph& graph, const Rehearsal& rehearsal);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_CHAIN_H_
