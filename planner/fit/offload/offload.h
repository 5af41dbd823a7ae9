#ifndef STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
#define STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_

// Keeps parts of a training step in the host's memory, beside the arena.
//
// Optimizer memory is wanted once a step, by the update of its param; until
// then it can lie elsewhere. What forward makes and backward reads can be
// offloaded after its last reader in forward and reloaded before its first in
// backward, and again before a later one where it would wait there, too. A param is
// reloaded before the nodes that read it, one that is trained also before its update, and
// offloaded after that; whether what forward has reloaded is reloaded again for backward
// is left to recomputation (planner/fit/recompute):
//
//   m: f32(...) = state               m: f32(...) = host_state
//   w, m' = momentum_update(w, m, g)  m~reloaded = reload(m)
//                                     w, m' = momentum_update(w, m~reloaded, g)
//                                     m~offloaded = offload_update(m, m')
//
// Bytes of the arena are bought with copies, not with operations. Nothing is
// computed otherwise, so the results do not change by a bit. Which values to
// move, planner/fit/offload/offload.h decides.
//
//   std::vector<Offloadable> all = FindOffloadable(step);
//   Result<Graph> moved = Offload(step, std::span(all).first(3));

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"

namespace stowage::fit {

/// A value that may lie in the host's memory.
struct Offloadable {
  ValueId value = 0;
  Bytes bytes = 0;  // copied there, and back, in every step
  // Of a forward value: the nodes that read it before and after. A param or a state is
  // reloaded before `to`, and offloaded after `updated`, its last update, if it has one.
  NodeId from = kNoNode;
  NodeId to = kNoNode;
  NodeId updated = kNoNode;
  /// Later nodes that it is reloaded for anew, in rising order. FindOffloadable lists
  /// those since whose last reader something at least as large was made.
  std::vector<NodeId> again = {};
  /// Of a param: those of `again` that it is always reloaded for.
  std::vector<NodeId> always = {};

  /// Whether it is a param or a state, which lies there from step to step.
  bool persists() const { return from == kNoNode; }
};

/// What may be moved in `graph`: first states that nothing but their update
/// reads, the largest first; then forward values that a later phase reads, in
/// falling order of how long they wait for that, if they wait at all and are
/// not a thousand times smaller than the largest. Outputs and constants stay.
/// Linear, but for sorting.
std::vector<Offloadable> FindOffloadable(const Graph& graph);

/// The params that may be moved in `graph`, the largest first: those that no node updates,
/// and with `trained` the others. A param is reloaded anew for a node since whose last
/// reader nodes have made, or read of other params, as many bytes as it has: always in
/// forward, and for an update; in backward in `again` alone. Linear, but for sorting, and
/// for the nodes between readers.
std::vector<Offloadable> FindOffloadableParams(const Graph& graph,
                                               bool trained);

/// `graph` with `moved`, as FindOffloadable(graph) and FindOffloadableParams(graph) have
/// them, in the host's memory: the verified graph. `places` are nodes of `graph`, and become the places where
/// they stand in the new one, what is reloaded for them included. Linear.
Result<Graph> Offload(const Graph& graph, std::span<const Offloadable> moved,
                      std::span<NodeId> places = {});

/// Bytes between arena and host that `node` copies: a reload, offload or offload_update; or
/// what its bodies do in all iterations, of a branch the one in which they do most.
Bytes BytesCopied(const Graph& graph, const Node& node);

/// What a graph keeps on the host. Values of a loop's body count once for each iteration.
struct HostUse {
  int values = 0;            // that lie there, states and others
  Bytes bytes_per_step = 0;  // copied, there and back
};
HostUse FindHostUse(const Graph& graph);

/// The values that `node`, or its bodies, put there, counted in the same way.
int ValuesOffloaded(const Node& node);

// What waits inside the bodies of loops and branches, in the host's memory.
//
// The body of a loop that goes back and makes its iterations again first is a small training
// step of its own, as is that of the gradient of a branch (planner/fit/recompute/bodies.h).
// What its forward part makes and its gradient reads can be offloaded and reloaded in it, as
// in any step, which lowers the workspace of the node, and costs copies in every iteration. An
// iteration offloads for itself alone.
//
//   { a0 = tanh(...)                    { a0 = tanh(...)
//     ...                                 a0~offloaded = offload(a0)
//     da0 = tanh_grad(a0, ...) }          ...
//                                         a0~reloaded = reload(a0~offloaded)
//                                         da0 = tanh_grad(a0~reloaded, ...) }
//
//   if (WaitsInBodies(step)) {
//     Result<Graph> moved = OffloadInBodies(step);
//   }

/// Whether a body of `graph`, at any depth, has something to move. Linear.
bool WaitsInBodies(const Graph& graph);

/// `graph` with all that waits in its bodies, at any depth, in the host's memory meanwhile:
/// of each body all values that FindOffloadable lists, reloaded anew for readers that are
/// far apart. Bodies that hold collectives stay as they are. Nodes keep their places,
/// values their names. Linear, but for sorting.
Result<Graph> OffloadInBodies(const Graph& graph);

// Params and states in the host's memory because another plan has them there.
//
// Programs over one arena share its weights and states, and what the first keeps on the
// host is there for all of them. Another step reloads such a state before the first node
// that uses it, and offloads it after the last that updates it; what only reads it never
// offloads it. Params are reloaded as FindOffloadableParams says.
//
//   WeightLayout layout = WeightLayout::FromForward(step.graph, step.plan);
//   Result<Graph> other = MoveGiven(shorter_step, layout);

/// `graph` with those of its params and states on the host that `layout` has there.
/// `places` are nodes of `graph`, and become the places where they stand in the new one.
/// Error kUnsupported names a param that the graph reads after its update, or has as an
/// output.
Result<Graph> MoveGiven(const Graph& graph, const WeightLayout& layout,
                        std::span<NodeId> places = {});

// How much of a step is kept in the host's memory.
//
// A copied byte has a price, as if no copy ran beside a kernel. So what a little
// recomputation can do is left to it, and what it can do only by running whole
// layers again, or not at all, is moved. How much is decided first, in a few
// steps from nothing to everything; micro-batches and recomputation fit the step that is
// left.
//
//   std::vector<Offloadable> all = FindOffloadable(step);
//   for (const Share share : SharesToTry(all)) {
//     Result<Graph> moved = Offload(step, Select(all, share, /*micro_batches=*/1));
//   }

/// The first of the states, of the forward values 0, 1 or 2 halves of their bytes, and no
/// params or all. Where the batch is in micro-batches, 2 halves in place of 1: all
/// micro-batches are alike.
struct Share {
  size_t states = 0;
  int halves = 0;
  bool again = false;   // values are reloaded anew (Offloadable::again)
  bool inside = false;  // and so is all that waits in bodies (offload/bodies.h)
  bool params = false;  // frozen ones
  bool trained = false;  // and those that are trained
  friend auto operator<=>(const Share&, const Share&) = default;
};

/// From nothing to everything, and to everything reloaded anew, each once; `all` as
/// FindOffloadable lists it. With `bodies`, nothing, all states and everything are also
/// tried with what waits in bodies; with `params`, all states and everything also with all
/// params, those that are trained included where `trained`.
std::vector<Share> SharesToTry(std::span<const Offloadable> all,
                               bool bodies = false, bool params = false,
                               bool trained = false);

/// What is moved of `all` in a step of so many micro-batches.
std::vector<Offloadable> Select(std::span<const Offloadable> all, Share share,
                                int64_t micro_batches);
/// How `params`, as FindOffloadableParams lists them, are moved: reloaded anew wherever
/// that may be with Share::again, else where it must be.
std::vector<Offloadable> SelectParams(std::vector<Offloadable> params,
                                      Share share);

/// How many of `all` are states; they come first.
size_t CountStates(std::span<const Offloadable> all);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
