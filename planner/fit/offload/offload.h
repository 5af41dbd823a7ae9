#ifndef STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
#define STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_

// Offloads values of a training step to host memory and reloads them before they are read.
//
// An optimizer state is read once per step, by the update of its param. A forward value that the
// backward pass reads can be offloaded after its last reader in the forward pass and reloaded
// before its first reader in the backward pass. It can be reloaded a second time for a much later
// reader. A param is reloaded before the nodes that read it. A trained param is also reloaded
// before its update and offloaded after it. If a param has been reloaded in the forward pass,
// recomputation decides whether it is reloaded a second time in the backward pass.
//
//   m: f32(...) = state               m: f32(...) = host_state
//   w, m' = momentum_update(w, m, g)  m~reloaded = reload(m)
//                                     w, m' = momentum_update(w, m~reloaded, g)
//                                     m~offloaded = offload_update(m, m')
//
// Offloading reduces the bytes of the arena at the cost of copies. It does not change the results
// by a bit. SharesToTry lists the amounts to offload. OffloadInBodies offloads values inside the
// bodies of loops and branches. MoveGiven follows the placement of another plan. Prefetch moves
// reloads earlier, where they overlap with kernels.
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
  /// A forward value is offloaded after `from`, its last reader in the forward pass, or after its
  /// producer if that pass does not read it. It is kNoNode for params and states.
  NodeId from = kNoNode;
  /// The first node that the value is reloaded for.
  NodeId to = kNoNode;
  /// The last update of a param or a state, after which it is offloaded. It is kNoNode if nothing
  /// updates the value.
  NodeId updated = kNoNode;
  /// Nodes after `to` for which the value is reloaded another time, in ascending order.
  /// FindOffloadable lists a reader if a node between it and the previous reader produces a result
  /// at least as large as the value.
  std::vector<NodeId> again = {};
  /// The nodes in `again` for which a param is always reloaded.
  std::vector<NodeId> always = {};

  /// Returns whether the value is a param or a state, which keeps its host memory across steps.
  bool persists() const { return from == kNoNode; }
};

/// Returns the values of `graph` that can be offloaded. Optimizer states that only their update
/// reads come first, largest first. Forward values that a later phase reads follow, longest idle
/// time first. Values that are never idle are omitted, as are values a thousand times smaller than
/// the largest one, values that are updated in place, outputs and constants. Linear, except for
/// sorting.
std::vector<Offloadable> FindOffloadable(const Graph& graph);

/// Returns the params of `graph` that can be offloaded, largest first. Params that a node updates
/// are included only if `trained` is set. `again` lists the readers before which the param is idle
/// for long: since the reader before, the results of nodes and the other params that they read have
/// at least as many bytes in total as the param. It also lists the update, and the first reader of
/// each further micro-batch. `always` lists the update and the forward nodes in `again`. Linear,
/// except for sorting and for the nodes between readers.
std::vector<Offloadable> FindOffloadableParams(const Graph& graph,
                                               bool trained);

/// Returns `graph` with the values `moved` in host memory, as a verified graph. `moved` must hold
/// results of FindOffloadable(graph) and FindOffloadableParams(graph). Each of `places` is a node
/// of `graph`, and is replaced by the node's index in the new graph. If values are reloaded for
/// the node, it is replaced by the index of the first reload. Linear.
Result<Graph> Offload(const Graph& graph, std::span<const Offloadable> moved,
                      std::span<NodeId> places = {});

/// Returns the number of bytes that `node` copies between arena and host. It is nonzero if `node`
/// is a `reload`, `offload` or `offload_update`, or has one of these in its bodies. For a loop, all
/// iterations are counted. For a branch, the body that copies the most bytes is counted.
Bytes BytesCopied(const Graph& graph, const Node& node);

/// The use of host memory by a graph. A value in a loop's body counts once per iteration.
struct HostUse {
  int values = 0;            // values in host memory, including states
  Bytes bytes_per_step = 0;  // bytes copied per step, in both directions
};
HostUse FindHostUse(const Graph& graph);

/// Returns the number of values that `node` or its bodies offload, counted as in HostUse.
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

/// Returns `graph` with all values offloaded that FindOffloadable lists for its bodies, at any
/// depth. The values are offloaded and reloaded within their body, and reloaded another time for
/// readers that are far apart (Offloadable::again). Bodies with collectives are unmodified. Nodes
/// keep their indices, and values keep their names. Linear, except for sorting.
Result<Graph> OffloadInBodies(const Graph& graph);

// Programs that share an arena share its weights and states, including those in host memory. A
// program planned later reloads such a state before its first use and offloads it after its last
// update. Params are reloaded as FindOffloadableParams describes.

/// Returns `graph` with those params and states in host memory that `layout` has in host memory.
/// Each of `places` is a node of `graph`, and is replaced by its index in the new graph as in
/// Offload. Returns kUnsupported if one of these params is read after its update, is an output, or
/// is used only by views. The message contains the name of the param.
Result<Graph> MoveGiven(const Graph& graph, const WeightLayout& layout,
                        std::span<NodeId> places = {});

// Costs assume that copies do not overlap with kernels. Recomputation therefore frees the memory
// that it can free cheaply, and offloading frees the rest. The amount to offload is chosen first,
// from a few amounts between nothing and everything. Micro-batches and recomputation then fit the
// remaining step.

/// The amount to offload: the `states` largest states, the forward values that are idle longest,
/// up to 0, 1 or 2 halves of their bytes, and all params or none. In a step with several
/// micro-batches, 1 half counts as 2, because every micro-batch offloads the same values.
struct Share {
  size_t states = 0;
  int halves = 0;
  bool again = false;    // values are reloaded for Offloadable::again
  bool inside = false;   // values in bodies are offloaded (OffloadInBodies)
  bool params = false;   // frozen params are offloaded
  bool trained = false;  // trained params are offloaded too
  friend auto operator<=>(const Share&, const Share&) = default;
};

/// Returns the shares to try, each once, from nothing to everything and then to everything with
/// Share::again. `all` is a result of FindOffloadable. If `bodies` is set, three of these shares,
/// nothing, all states and everything, are tried with Share::inside as well. If `params` is set,
/// all states, everything and everything with Share::again are tried with all params as well,
/// including trained params if `trained` is set.
std::vector<Share> SharesToTry(std::span<const Offloadable> all,
                               bool bodies = false, bool params = false,
                               bool trained = false);

/// Returns the values in `all` that `share` offloads in a step of `micro_batches` micro-batches.
std::vector<Offloadable> Select(std::span<const Offloadable> all, Share share,
                                int64_t micro_batches);
/// Returns `params`, a result of FindOffloadableParams, as `share` offloads them. With
/// Share::again they are reloaded for all nodes in Offloadable::again, otherwise only for the
/// nodes in Offloadable::always.
std::vector<Offloadable> SelectParams(std::vector<Offloadable> params,
                                      Share share);

/// Returns the number of states in `all`. States come first.
size_t CountStates(std::span<const Offloadable> all);

// A device copies while kernels run, but a reload immediately before its reader overlaps with
// nothing. Each reload is therefore moved earlier until the nodes between it and its reader run
// as long as the copy. The link carries one copy at a time:
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
  int moved = 0;  // number of reloads that were moved
};

/// Returns `graph` with its reloads moved earlier, and a plan for it that fits `budget`. Requires
/// that `plan`, a plan of `graph` under `options`, fits `budget`. `cost` returns the cost of every
/// node in one unit. The cost of a copy is the time for which it occupies the link. Reloads in
/// bodies are moved first, then the others. Both steps have no effect if no reload can move, or if
/// the modified graph is not packed into the budget in four attempts. Propagates errors of
/// PlanMemory. Linear, except for planning and for the nodes that a reload moves past.
Result<Prefetched> Prefetch(const Graph& graph, const Plan& plan, Bytes budget,
                            const CostFn& cost, PlanOptions options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_OFFLOAD_OFFLOAD_H_
