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
// runs after the memory optimizations, which work on single ops. A fused node computes the same
// results as the separate ops, bit for bit.
//
// Updates of small params (biases and params of norms) move to the end of the step, where a device
// may run adjacent updates as one kernel (Fusions::updates). The last sums of norms' gradients
// precede them (SumLate).
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

/// Returns `graph` with nodes fused, with updates of small params at its end and the sums of norms'
/// gradients before them, and a plan for it under `options`. The arena does not exceed the arena of
/// `plan`, which must be a plan of `graph` under the same options. Returns `graph` unmodified if no
/// such plan is found. The other operands of a fused chain must be computed before its first op
/// runs. Other results that are kept must fit below the peak. Propagates errors of PlanMemory.
/// Linear, except for planning.
Result<Fused> Fuse(const Graph& graph, const Plan& plan,
                   const PlanOptions& options);

// Computes the last sums of the gradients of many norms in one node (ir/element_groups.h):
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
// (Fusions::sum_parts). Its node precedes the first reader of one of its sums, such as a norm of
// all gradients, a collective or an update. Later norms have a node of their own. The partial sums
// are live until the node runs, and must fit below the peak. The latest norms are included first,
// because their partial sums are live for the shortest time.
//
//   Result<std::optional<LateSums>> late = SumLate(graph, plan, options);

/// The memory below the peak of a plan that is free at each time. It allows values to live longer.
class Room {
 public:
  /// `plan` must be a plan of `graph`. Linear in buffers and nodes.
  Room(const Graph& graph, const Plan& plan);

  /// Reserves `count` times `bytes` in [begin, end) if they fit below the peak. Returns whether
  /// they fit. Linear in nodes.
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

/// Returns `graph` with the last sums of norms combined as above, and a plan for it under
/// `options`. The arena does not exceed the arena of `plan`, which must be a plan of
/// `graph` under the same options. Sums that nothing reads are not computed. Returns nothing if the
/// graph does not change, or if no such plan is found. Bodies are unmodified. Propagates errors of
/// PlanMemory. Linear in nodes times norms, except for planning.
Result<std::optional<LateSums>> SumLate(const Graph& graph, const Plan& plan,
                                        const PlanOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_FUSE_FUSE_H_
