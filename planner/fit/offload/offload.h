#ifndef STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
#define STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_

// Keeps parts of a training step in the host's memory, beside the arena.
//
// Optimizer memory is wanted once a step, by the update of its param; until
// then it can lie elsewhere. What forward makes and backward reads can be
// stashed after its last reader in forward and fetched before its first in
// backward, and again before a later one where it would wait there, too:
//
//   m: f32(...) = state               m: f32(...) = host_state
//   w, m' = momentum_update(w, m, g)  m~fetched = fetch(m)
//                                     w, m' = momentum_update(w, m~fetched, g)
//                                     m~stashed = stash_update(m, m')
//
// Bytes of the arena are bought with copies, not with operations. Nothing is
// computed otherwise, so the results do not change by a bit. Which values to
// move, planner/fit/offload/share.h decides.
//
//   std::vector<Offloadable> all = FindOffloadable(step);
//   Result<Graph> moved = Offload(step, std::span(all).first(3));

#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"

namespace stowage::fit {

/// A value that may lie in the host's memory.
struct Offloadable {
  ValueId value = 0;
  Bytes bytes = 0;  // copied there, and back, in every step
  // Of a forward value: the nodes that read it before and after. A state is fetched
  // before `to`, and stashed after `updated`, its last update: of those that
  // FindOffloadable lists, the same node.
  NodeId from = kNoNode;
  NodeId to = kNoNode;
  NodeId updated = kNoNode;
  /// Of a forward value: later nodes that it is fetched for anew. FindOffloadable lists
  /// those since whose last reader something at least as large was made.
  std::vector<NodeId> again = {};

  bool is_state() const { return from == kNoNode; }
};

/// What may be moved in `graph`: first states that nothing but their update
/// reads, the largest first; then forward values that a later phase reads, in
/// falling order of how long they wait for that, if they wait at all and are
/// not a thousand times smaller than the largest. Outputs and constants stay.
/// Linear, but for sorting.
std::vector<Offloadable> FindOffloadable(const Graph& graph);

/// `graph` with `moved`, as FindOffloadable(graph) has them, in the host's memory: the
/// verified graph. `places` are nodes of `graph`, and become the places where
/// they stand in the new one, what is fetched for them included. Linear.
Result<Graph> Offload(const Graph& graph, std::span<const Offloadable> moved,
                      std::span<NodeId> places = {});

/// Bytes between arena and host that `node` copies: a fetch, stash or stash_update; or
/// what its bodies do in all trips, of a branch the one in which they do most.
Bytes BytesCopied(const Graph& graph, const Node& node);

/// What a graph keeps on the host. Values of a loop's body count once for each trip.
struct HostUse {
  int values = 0;            // that lie there, states and others
  Bytes bytes_per_step = 0;  // copied, there and back
};
HostUse FindHostUse(const Graph& graph);

/// The values that `node`, or its bodies, put there, counted in the same way.
int ValuesStashed(const Node& node);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
