#ifndef STOWAGE_PLANNER_FIT_FUSE_FUSE_H_
#define STOWAGE_PLANNER_FIT_FUSE_FUSE_H_

// Fuses several ops into one node, so that the values between them are not written to memory:
//
//   before                              after
//   m = matmul(x, w)                    h = fused_matmul(x, w, b, residual)
//   p = add(m, b)                         {program: add, add}
//   h = add(residual, p)
//   dq, dk, dv = attention_grad(...)    dqkv = attention_qkv_grad(...)
//   dqkv = concat(dq, dk, dv)
//   dh, ... = layer_norm_grad(...)      dx, ... = layer_norm_grad_add(..., dr)
//   dx = add(dr, dh)
//
// Chains of elementwise ops become one fused_elementwise (ir/fused.h). The device determines which
// fusions it supports (DeviceNeeds::fusions). A fused node has the position of its first op. Fusing
// runs after the memory optimizations, which work on single ops. The results of a fused node are
// bit-equal to the results of the separate ops.
//
// Updates of small params (biases and params of normalization layers) move to the end of the step,
// where a device may run adjacent updates as one kernel (Fusions::updates). The final sums of the
// gradients of normalization layers precede these updates (SumLate).
//
//   Result<Fused> fused = Fuse(step.graph, step.plan, options);

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

struct Fused {
  Graph graph;
  Plan plan;
  bool changed = false;
};

/// Returns `graph`, with nodes fused, updates of small params at its end and the sums of SumLate,
/// and a plan for it under `options`. The budget of `options` is ignored. `plan` must be a plan of
/// `graph` under the same options. The new arena does not exceed the arena of `plan`. Each of the
/// three changes is omitted if no such plan is found. Returns `graph` and `plan` unmodified if
/// Fusions::elementwise is null, even if the device supports other fusions.
///
/// Ops are fused into a chain only if all operands of the chain are computed before its first op
/// runs. A result within a chain that other nodes read is kept only if it fits below the peak of
/// `plan`. Propagates errors of PlanMemory. Linear, except for planning.
Result<Fused> Fuse(const Graph& graph, const Plan& plan,
                   const PlanOptions& options);

// SumLate computes the final sums of the gradients of many normalization layers ("norms") in one
// node (ir/element_groups.h):
//
//   before                              after
//   dh, dg1, db1 = layer_norm_grad(..)  dh, p1, q1 = layer_norm_grad(..) {parts}
//   ...                                 ...
//   dx, dg2, db2 = layer_norm_grad(..)  dx, p2, q2 = layer_norm_grad(..) {parts}
//   ...                                 ...
//   sgd_update(g1, dg1, ..)             dg1, db1, dg2, db2 = sum_partials(p1, q1, p2, q2)
//                                       sgd_update(g1, dg1, ..)
//
// The gradient of a norm may use two kernels. The second kernel adds the partial sums that the
// blocks of the first kernel have computed. One second kernel can serve many norms
// (Fusions::sum_parts). The node of the second kernel precedes all nodes that read its sums, such
// as the norm of all gradients, a collective or an update. Norms after this node get another node.
// The partial sums are live until the node runs, and must fit below the peak. If not all of them
// fit, the latest norms are included, because their partial sums are live for the shortest time.
//
//   Result<std::optional<LateSums>> late = SumLate(graph, plan, options);

/// The number of bytes that are free below the peak of a plan at each time. Values may live longer
/// within these bytes.
class Room {
 public:
  /// `plan` must be a plan of `graph`. Linear in the number of buffers and nodes.
  Room(const Graph& graph, const Plan& plan);

  /// Reserves `count` buffers of `bytes` bytes at all times in [begin, end), if they fit below the
  /// peak. Returns whether they fit. Linear in the number of nodes.
  bool Take(NodeId begin, NodeId end, Bytes bytes, int count = 1);

 private:
  Bytes alignment_;
  std::vector<Bytes> live_;  // live bytes by time
  Bytes peak_ = 0;
};

struct LateSums {
  Graph graph;
  Plan plan;
};

/// Returns `graph` with the final sums of norms combined, and a plan for it under `options`, which
/// must have no budget. `plan` must be a plan of `graph` under the same options. The new arena does
/// not exceed the arena of `plan`. Sums that no node reads are not computed. Returns nullopt if
/// Fusions::sum_parts is null, if the graph does not change, or if no such plan is found. Bodies
/// are unmodified. Propagates errors of PlanMemory. Takes time in proportion to the number of nodes
/// times the number of norms, except for planning.
Result<std::optional<LateSums>> SumLate(const Graph& graph, const Plan& plan,
                                        const PlanOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_FUSE_FUSE_H_
