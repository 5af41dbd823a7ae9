#ifndef STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
#define STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_

// Keeps parts of a training step in host memory.
//
// An optimizer state is read once a step, by the update of its param. A forward value that
// backward reads can be offloaded after its last reader in forward and reloaded before its
// first in backward, and once more before a much later reader. A param is reloaded before the
// nodes that read it; a trained one also before its update, and offloaded after it. Whether a
// param that forward has reloaded is reloaded again for backward is left to recomputation.
//
//   m: f32(...) = state               m: f32(...) = host_state
//   w, m' = momentum_update(w, m, g)  m~reloaded = reload(m)
//                                     w, m' = momentum_update(w, m~reloaded, g)
//                                     m~offloaded = offload_update(m, m')
//
// Offload trades copies for bytes of the arena. Nothing else changes, so results keep every
// bit. SharesToTry lists the amounts to move, OffloadInBodies moves values inside the bodies of
// loops and branches, MoveGiven follows the placement of another plan, and Prefetch moves
// reloads up so that they overlap with kernels.
//
//   std::vector<Offloadable> all = FindOffloadable(step);
//   for (const Share share : SharesToTry(all)) {
//     Result<Graph> moved = Offload(step, Select(all, share, /*micro_batches=*/1));
//   }

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/cost.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

/// A value that can be kept in host memory.
struct Offloadable {
  ValueId value = 0;
  Bytes bytes = 0;  // copied each way in every step
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

  /// Whether it is a param or a state, which stays there from step to step.
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

/// Use of host memory by a graph. Values of a loop's body count once for each iteration.
struct HostUse {
  int values = 0;            // on the host, states included
  Bytes bytes_per_step = 0;  // copied, both ways
};
HostUse FindHostUse(const Graph& graph);

/// The values that `node`, or its bodies, offload, counted in the same way.
int ValuesOffloaded(const Node& node);

// The body of a backward loop that recomputes its iterations is a small training step of its
// own, as is that of the gradient of a branch (planner/fit/recompute/bodies.h). Values that its
// forward part makes and its gradient reads can be offloaded within the body, which lowers the
// workspace of the node and costs copies in every iteration.
//
//   { a0 = tanh(...)                    { a0 = tanh(...)
//     ...                                 a0~offloaded = offload(a0)
//     da0 = tanh_grad(a0, ...) }          ...
//                                         a0~reloaded = reload(a0~offloaded)
//                                         da0 = tanh_grad(a0~reloaded, ...) }

/// Whether a body of `graph`, at any depth, has something to move. Linear.
bool WaitsInBodies(const Graph& graph);

/// `graph` with all values that FindOffloadable lists of its bodies, at any depth, offloaded
/// within the bodies, and reloaded anew for readers that are far apart. Bodies that hold collectives stay as they are. Nodes keep their places,
/// values their names. Linear, but for sorting.
Result<Graph> OffloadInBodies(const Graph& graph);

// Programs over one arena share its weights and states, on the host as well. Another step
// reloads such a state before its first use, and offloads it after its last update. Params are
// reloaded as FindOffloadableParams says.

/// `graph` with those of its params and states on the host that `layout` has there.
/// `places` are nodes of `graph`, and become the places where they stand in the new one.
/// Error kUnsupported names a param that the graph reads after its update, or has as an
/// output.
Result<Graph> MoveGiven(const Graph& graph, const WeightLayout& layout,
                        std::span<NodeId> places = {});

// A copied byte is charged as if no copy overlapped with a kernel, so recomputation does what
// it can do cheaply, and offload the rest. The amount to move is chosen first, in a few steps
// from nothing to everything; micro-batches and recomputation then fit the remaining step.

/// The first of the states, of the forward values 0, 1 or 2 halves of their bytes, and no
/// params or all. Where the batch is in micro-batches, 2 halves in place of 1: all
/// micro-batches are alike.
struct Share {
  size_t states = 0;
  int halves = 0;
  bool again = false;    // values are reloaded anew (Offloadable::again)
  bool inside = false;   // values in bodies are offloaded too (OffloadInBodies)
  bool params = false;   // frozen ones
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

// A device copies while kernels run, but a reload right before its reader overlaps with
// nothing. Each is therefore moved up until the nodes in between take as long as the copy; the
// link carries one copy at a time:
//
//   before                 after
//   ...                    m~reloaded = reload(m)       ┐ copied during
//   dh = matmul(...)       dh = matmul(...)           │ these two
//   dw = matmul(...)       dw = matmul(...)           ┘
//   m~reloaded = reload(m)   w, m' = momentum_update(w, m~reloaded, dw)
//   w, m' = momentum_update(w, m~reloaded, dw)
//
// A value that is reloaded early is live longer, so only memory that the budget leaves is used.
// Reloads in a body of a loop or a branch are moved up within the body.

struct Prefetched {
  Graph graph;
  Plan plan;
  int moved = 0;  // reloads
};

/// `graph` with its reloads moved up, and a plan for it that fits `budget`, which
/// `plan`, of `graph` by `options`, has to fit. `cost`: of every node, in one
/// unit; of copies, what they take of the link. What bodies reload moves first, then
/// the rest; of either, nothing where nothing can move, or nothing that moved was packed
/// into the budget in a few attempts. Errors: those of PlanMemory. Linear, but for
/// planning, and for the nodes that a reload moves past.
Result<Prefetched> Prefetch(const Graph& graph, const Plan& plan, Bytes budget,
                            const CostFn& cost, PlanOptions options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
