#ifndef STOWAGE_PLANNER_FIT_FUSE_FUSE_H_
#define STOWAGE_PLANNER_FIT_FUSE_FUSE_H_

// Fuses several ops into one node, so that values between them never go to memory:
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
// and chains of elementwise ops as one fused_elementwise (ir/fused.h). Updates of small params,
// biases and norms, move to the end of the step, where a device may run adjacent ones as one
// kernel (Fusions::updates), preceded by the last sums of norms' gradients (SumLate). Fusing
// comes after the memory optimizations, which see single ops, and changes no bit: the results of
// fused ops are those of their parts. A fused node takes the place of its first part. The device
// says which fusions it supports (DeviceNeeds::fusions).
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

/// `graph` with nodes fused, updates of small params at its end, and norms' sums in front of
/// these, and a plan for it by `options` whose arena is no larger than that of `plan`, which
/// is for `graph` and by the same options; unchanged if there is none. Other operands of a
/// chain must be live when its first part runs; other results that are kept must fit below the
/// peak. Errors: those of PlanMemory. Linear, but for planning.
Result<Fused> Fuse(const Graph& graph, const Plan& plan,
                   const PlanOptions& options);

// The last sums of the gradients of many norms as one node (ir/element_groups.h):
//
//   before                              after
//   dh, dg1, db1 = layer_norm_grad(..)  dh, p1, q1 = layer_norm_grad(..) {parts}
//   ...                                 ...
//   dx, dg2, db2 = layer_norm_grad(..)  dx, p2, q2 = layer_norm_grad(..) {parts}
//   ...                                 ...
//   sgd_update(g1, dg1, ..)             dg1, db1, dg2, db2 = sum_partials(p1, q1, p2, q2)
//                                       sgd_update(g1, dg1, ..)
//
// Where such a gradient takes two kernels, of which the second adds up what the blocks of the
// first leave, one second kernel serves many norms (Fusions::sum_parts). The node comes before
// the first reader of one of its sums, such as a norm of all gradients, a collective or an
// update; norms made after that have a node of their own. Until then the parts are live, where
// they fit below the peak: those of the norms made last come first, since they live shortest.
//
//   Result<std::optional<LateSums>> late = SumLate(graph, plan, options);

/// The bytes below the peak of a plan at each time, where values may live longer.
class Room {
 public:
  /// Linear in buffers and nodes. `plan` is for `graph`.
  Room(const Graph& graph, const Plan& plan);

  /// Takes `bytes` in [begin, end), `count` times, if all fit below the peak. Linear in
  /// nodes.
  bool Take(NodeId begin, NodeId end, Bytes bytes, int count = 1);

 private:
  Bytes alignment_;
  std::vector<Bytes> live_;  // by time
  Bytes peak_ = 0;
};

struct LateSums {
  Graph graph;
  Plan plan;
};

/// `graph` with such nodes, and a plan for it by `options` whose arena is no larger than
/// that of `plan`, which is for `graph` and by the same options; nothing if no two norms share
/// a node or no such plan was found. Bodies stay as they are. Errors: those of
/// PlanMemory. Linear in nodes times norms, but for planning.
Result<std::optional<LateSums>> SumLate(const Graph& graph, const Plan& plan,
                                        const PlanOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_FUSE_FUSE_H_
