#ifndef STOWAGE_PLANNER_FIT_FUSE_LATE_SUMS_H_
#define STOWAGE_PLANNER_FIT_FUSE_LATE_SUMS_H_

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
// A device that makes such a gradient by two grids, of which the second adds up what the
// blocks of the first leave, runs one of the second kind where it ran many
// (Fusions::sum_parts). The node stands in front of the first that reads one of its sums,
// be that a norm of all gradients, an exchange or an update, and of the updates that run as
// one with that; what is made only behind it has a node of its own. Until then the parts are
// in memory, where they find room below the peak: those of the norms made last come first,
// for they wait shortest.
//
//   Result<std::optional<LateSums>> late = SumLate(graph, plan, options);

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

// Where values may live longer than they do in a plan: as long as the sum of what is live
// stays at or below its peak.
//
//   Room room(graph, plan);
//   if (room.Take(begin, end, bytes)) { ... }  // [begin, end), in nodes

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
/// that of `plan`, which is for `graph` and by the same options. Nothing where no two norms
/// go together, or no such plan was found. Bodies stay as they are. Errors: those of
/// PlanMemory. Linear in nodes times norms, but for planning.
Result<std::optional<LateSums>> SumLate(const Graph& graph, const Plan& plan,
                                        const PlanOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_FUSE_LATE_SUMS_H_
