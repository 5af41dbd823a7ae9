#ifndef STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
#define STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_

// Offloads values of a training step to host memory and reloads them before they are read.
//
// An optimizer state is read once per step, by the update of its param. It can be reloaded before
// the update and offloaded after it. A forward value that the backward pass reads can be offloaded
// after its last reader in the forward pass and reloaded before its first reader in the backward
// pass. It can be reloaded a second time for a much later reader. A param can be reloaded before
// the nodes that read it. A trained param is also reloaded before its update and offloaded after
// the update. If a param has been reloaded in the forward pass, the search for recomputations
// (planner/fit/recompute/recompute.h) decides whether it is reloaded a second time in the backward
// pass.
//
//   m: f32(...) = state               m: f32(...) = host_state
//   w, m' = momentum_update(w, m, g)  m~reloaded = reload(m)
//                                     w, m' = momentum_update(w, m~reloaded, g)
//                                     m~offloaded = offload_update(m, m')
//
// Offloading reduces the bytes of the arena at the cost of copies. It does not change any bit of
// the results. SharesToTry lists the amounts to offload. OffloadInBodies offloads values inside the
// bodies of loops and branches. MoveGiven offloads the params and states that another plan has in
// host memory. Prefetch moves reloads earlier, so that they overlap with kernels.
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

/// A value that can be offloaded.
struct Offloadable {
  ValueId value = 0;
  /// Bytes copied in each direction in every step.
  Bytes bytes = 0;
  /// The node after which a forward value is offloaded: its last reader in the forward pass, or its
  /// producer if no node of the forward pass reads it. It is kNoNode for params and states.
  NodeId from = kNoNode;
  /// The first node that the value is reloaded for.
  NodeId to = kNoNode;
  /// The last update of a param or a state, after which it is offloaded. It is kNoNode if nothing
  /// updates the value.
  NodeId updated = kNoNode;
  /// Nodes after `to` for which the value is reloaded another time, in ascending order.
  /// FindOffloadable and FindOffloadableParams describe which nodes they list.
  std::vector<NodeId> again = {};
  /// For a param, the nodes in `again` for which it is reloaded even without Share::again.
  std::vector<NodeId> always = {};

  /// Returns whether the value is a param or a state, which keeps its host memory across steps.
  bool persists() const { return from == kNoNode; }
};

/// Returns the values of `graph` that can be offloaded, without params. Optimizer states that only
/// their update reads come first, largest first. Forward values that a later phase reads follow,
/// longest idle time first. Forward values are omitted if they are never idle, more than a thousand
/// times smaller than the largest one, updated in place, outputs, constants or reloaded already.
/// `again` lists a reader if a node between it and the previous reader produces a result at least
/// as large as the value. Linear, except for sorting and for the nodes between readers.
std::vector<Offloadable> FindOffloadable(const Graph& graph);

/// Returns the params of `graph` that can be offloaded, largest first. Params that a node updates
/// are included only if `trained` is set. Params that are outputs, that are read after their
/// update, or that only views read are omitted.
///
/// `again` lists readers before which the param is idle for a long time: the results of the nodes
/// since the previous reader, and the params that these nodes read, have at least as many bytes in
/// total as the param. It also lists the update, and the first reader of each further micro-batch.
/// `always` lists the update and the forward nodes in `again`. Linear, except for sorting and for
/// the nodes between readers.
std::vector<Offloadable> FindOffloadableParams(const Graph& graph,
                                               bool trained);

/// Returns `graph` with the values `moved` in host memory, as a verified graph. The elements of
/// `moved` must be results of FindOffloadable(graph) and FindOffloadableParams(graph). Each element
/// of `places` is a node of `graph`. Offload replaces it by the node's index in the new graph or,
/// if values are reloaded for the node, by the index of the first reload. Linear.
Result<Graph> Offload(const Graph& graph, std::span<const Offloadable> moved,
                      std::span<NodeId> places = {});

/// Returns the number of bytes that `node`, a node of `graph`, copies between arena and host. It is
/// nonzero if `node` is a `reload`, `offload` or `offload_update`, or has one of these in its
/// bodies. For a loop, all iterations are counted. For a branch, the body that copies the most
/// bytes is counted.
Bytes BytesCopied(const Graph& graph, const Node& node);

/// The use of host memory by a graph. A value in a loop's body counts once per iteration. For a
/// branch, only the body with the largest figure counts.
struct HostUse {
  /// Values in host memory, including params and states.
  int values = 0;
  Bytes bytes_per_step = 0;  // Bytes copied per step, in both directions.
};

/// Returns the use of host memory by `graph`.
HostUse FindHostUse(const Graph& graph);

/// Returns the number of values that `node` or its bodies offload, without params and states.
/// Values in bodies count as in HostUse.
int ValuesOffloaded(const Node& node);

// The body of a backward loop that recomputes its iterations is itself a small training step, as
// is the body of the gradient of a branch (planner/fit/recompute/bodies.h). Values that its
// forward part produces and its gradient reads can be offloaded within the body. This reduces the
// workspace of the node and adds copies to every iteration.
//
//   { a0 = tanh(...)                    { a0 = tanh(...)
//     ...                                 a0~offloaded = offload(a0)
//     da0 = tanh_grad(a0, ...) }          ...
//                                         a0~reloaded = reload(a0~offloaded)
//                                         da0 = tanh_grad(a0~reloaded, ...) }

/// Returns whether a body of `graph`, at any depth, has values that OffloadInBodies can offload.
/// Linear.
bool WaitsInBodies(const Graph& graph);

/// Returns `graph` with all values offloaded that FindOffloadable returns for its bodies, at any
/// depth. The values are offloaded and reloaded within their body, and reloaded another time for
/// the nodes in Offloadable::again. Bodies with collectives are unmodified. The nodes of `graph`
/// keep their indices, and its values keep their names. Linear, except for sorting.
Result<Graph> OffloadInBodies(const Graph& graph);

// Programs that share an arena share the weights and states in it, and also those in host memory. A
// program that is planned later reloads a state in host memory before the state's first use, and
// offloads it after its last update. Params are reloaded as FindOffloadableParams describes.

/// Returns `graph` with those params and states in host memory that `layout` has in host memory.
/// Each element of `places` is a node of `graph`, and is replaced as in Offload. Returns
/// kUnsupported, naming the param, if one of these params is read after its update, is an output,
/// or is read only by views.
Result<Graph> MoveGiven(const Graph& graph, const WeightLayout& layout,
                        std::span<NodeId> places = {});

// Costs assume that copies do not overlap with kernels. The best steps therefore recompute the
// values that are cheap to recompute, and offload others. A search tries a few amounts to offload,
// between nothing and everything. For each amount, micro-batches and recomputation fit the
// remaining step (planner/fit/grid.h).

/// An amount to offload.
struct Share {
  /// The number of states to offload, largest first.
  size_t states = 0;
  /// 0, 1 or 2. The forward values to offload have this number of halves of the bytes of all
  /// forward values that can be offloaded. Values that are idle longest come first. In a step with
  /// several micro-batches, 1 counts as 2, because every micro-batch offloads the same values.
  int halves = 0;
  /// Whether values are also reloaded for Offloadable::again.
  bool again = false;
  /// Whether values in bodies are offloaded (OffloadInBodies).
  bool inside = false;
  bool params = false;  // Whether frozen params are offloaded.
  /// Whether trained params are offloaded in addition to frozen ones.
  bool trained = false;
  friend auto operator<=>(const Share&, const Share&) = default;
};

/// Returns the shares to try. `all` must be a result of FindOffloadable. The first shares lead from
/// nothing to all values of `all`. The last of these shares is all values with Share::again, if a
/// value has nodes in Offloadable::again. If `bodies` is set, shares with Share::inside follow:
/// nothing else, all states, and the last share. If `params` is set, shares with Share::params
/// follow, and with Share::trained if `trained` is set: all states, the last share, and the last
/// share with Share::again.
std::vector<Share> SharesToTry(std::span<const Offloadable> all,
                               bool bodies = false, bool params = false,
                               bool trained = false);

/// Returns the values in `all`, a result of FindOffloadable, that `share` offloads in a step of
/// `micro_batches` micro-batches. Offloadable::again is empty in the result unless Share::again is
/// set.
std::vector<Offloadable> Select(std::span<const Offloadable> all, Share share,
                                int64_t micro_batches);

/// Returns `params`, a result of FindOffloadableParams, with the reloads of `share`. Without
/// Share::again, Offloadable::always replaces Offloadable::again.
std::vector<Offloadable> SelectParams(std::vector<Offloadable> params,
                                      Share share);

/// Returns the number of states in `all`, a result of FindOffloadable.
size_t CountStates(std::span<const Offloadable> all);

// Prefetch moves reloads. A device copies while kernels run, but a reload immediately before its
// reader does not overlap with any kernel. Each reload is therefore moved earlier, until the nodes
// between it and its reader take as long as the copy. Copies do not overlap with each other:
//
//   before                 after
//   ...                    m~reloaded = reload(m)     ┐ copied during
//   dh = matmul(...)       dh = matmul(...)           │ these two
//   dw = matmul(...)       dw = matmul(...)           ┘
//   m~reloaded = reload(m)   w, m' = momentum_update(w, m~reloaded, dw)
//   w, m' = momentum_update(w, m~reloaded, dw)
//
// An earlier reload makes the value live longer, so reloads move only as far as the budget allows.
// Reloads in the body of a loop or a branch are moved within the body.

struct Prefetched {
  Graph graph;
  Plan plan;
  int moved = 0;  // The number of reloads that were moved.
};

/// Returns `graph` with its reloads moved earlier, and a plan for it that fits `budget`. `plan`
/// must be a plan of `graph` under `options`, and must fit `budget`. The budget of `options` is
/// ignored. `cost` must return the time of each node, in any unit. The time of a copy is the time
/// for which it occupies the link between device and host.
///
/// The first step moves reloads in bodies, and the second step moves the other reloads. A step is
/// omitted if no reload can move, or if four attempts do not find a plan that fits the budget.
/// Propagates errors of PlanMemory. Linear, except for planning and for the nodes that a reload
/// moves past.
Result<Prefetched> Prefetch(const Graph& graph, const Plan& plan, Bytes budget,
                            const CostFn& cost, PlanOptions options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
