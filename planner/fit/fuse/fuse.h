#ifndef STOWAGE_PLANNER_FIT_FUSE_FUSE_H_
#define STOWAGE_PLANNER_FIT_FUSE_FUSE_H_

// Several ops as one node, so that what lies between them never goes to memory:
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
// and chains of elementwise ops as one fused_elementwise (ir/fused.h). Updates of small
// params, biases and norms, move to the end of the step, where a device may run those that
// stand side by side as one (Fusions::updates); and what norms' gradients leave to be summed
// up is summed up in front of them (planner/fit/fuse/late_sums.h). The last of the
// optimizations leaves a step that fits; its nodes are fused then, so that all optimizations see, move
// and run again single ops, and no bit depends on what was fused: the results of fused
// ops are those of their parts. A fused node stands where the first of its parts stood.
// Which it may take is the device's to say (DeviceNeeds::fusions).
//
//   Result<Fused> fused = Fuse(step.graph, step.plan, options);

#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

struct Fused {
  Graph graph;
  Plan plan;
  bool changed = false;  // whether they are not as they were given
};

/// `graph` with nodes fused, updates of small params at its end, and norms' sums in front of
/// these, and a plan for it by `options` whose arena is no larger than that of `plan`, which
/// is for `graph` and by the same options. The graph and plan themselves where there is
/// nothing of the kind, or no such plan was found. What is read besides the chain must be
/// there when its first part runs; what is kept besides its last result must find room below
/// the peak. Errors: those of PlanMemory. Linear, but for planning.
Result<Fused> Fuse(const Graph& graph, const Plan& plan,
                   const PlanOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_FUSE_FUSE_H_
