#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_

// Recomputation inside the bodies of loops and branches.
//
// The workspace of a node with bodies is the arena of a body (planner/plan.h). The body of a
// backward loop that recomputes its iterations (planner/fit/recompute/iterations.h) is a small
// training step: an iteration's forward part, and its gradient. Values between the two can be
// dropped and recomputed as in any step, which lowers the workspace, at a cost in every iteration.
//
// Recomputation is chosen for all bodies at once, by *levels*. Each level is a limit on the bytes
// that are live while a node with bodies runs, in its bodies and in the graph around it; the limit
// falls from level to level. Bodies are recomputed until they meet it, if possible; others stay as
// they are. The last level reduces the memory of every body as far as possible.
//
//   STOWAGE_ASSIGN_OR_RETURN(const std::vector<BodyLevel> levels,
//                            FindBodyLevels(step, {.plan = options}));
//   for (const BodyLevel& level : levels) {
//     Result<LoweredBodies> lowered = LowerBodies(step, level, /*cost=*/{});
//     PlanMemory(lowered->graph, options);  // a smaller arena, or not
//   }

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/cost.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/recompute/simulation.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

struct BodyChange;

/// The recomputations in the bodies of a graph, each body listed once.
using BodyLevel = std::vector<BodyChange>;

/// The recomputations in one body, and in all bodies like it, that is, whose nodes have the same
/// ops, phases, types and operands.
struct BodyChange {
  uint64_t likeness = 0;
  Script script = {};     // in the body
  BodyLevel inside = {};  // in the bodies in it
};

struct BodyLevelOptions {
  PlanOptions plan = {};  // its budget is ignored
  /// Names of values that are never recomputed, in any body. A name of a value of the graph
  /// itself refers to that value alone.
  std::vector<std::string> always_kept = {};
  CostFn cost = {};  // empty: operations
  /// Search effort, as for the step itself (RecomputeOptions).
  double effort = 1;
  std::function<void()> on_choice = {};
};

/// The most that FindBodyLevels finds.
inline constexpr size_t kMaxBodyLevels = 4;

/// The levels worth trying, by falling sum and rising cost; none if no recomputation in a body
/// saves memory. Bodies with collectives, or with negligible arenas, stay as they are. Searches
/// each body; deterministic. Errors: those of rewriting a body, in case of a bug.
Result<std::vector<BodyLevel>> FindBodyLevels(const Graph& graph,
                                              const BodyLevelOptions& options);

/// A node with recomputation in its bodies; of a branch, in the body with the most.
struct LoweredNode {
  std::string node = {};  // its first result
  // Of one run of the node with all its iterations.
  double extra_cost = 0;
  double flops_again = 0;
  int nodes_again = 0;  // views not counted
  /// The recomputed values, named "<value>@<first result of the node>"; `freed` is of one
  /// iteration.
  std::vector<RecomputedNode> told = {};
};

struct LoweredBodies {
  Graph graph;
  std::vector<LoweredNode> nodes = {};  // of `graph`, not those in its bodies
};

/// `graph` with the recomputations of `level` in its bodies. Nodes keep their places, values
/// their names. Error kInvalidArgument: a recomputation is impossible. Linear in nodes and
/// recomputations.
Result<LoweredBodies> LowerBodies(const Graph& graph, const BodyLevel& level,
                                  const CostFn& cost);

/// Whether a node in a body of `graph`, at any depth, has a result of this name.
bool IsMadeInBody(const Graph& graph, std::string_view name);

/// `names`, and the first results of those nodes of `graph` whose bodies make a value of such a
/// name that `graph` itself has not. As names of kept values these prevent the recomputation of
/// iterations.
std::vector<std::string> WithNodesThatMake(const Graph& graph,
                                           std::span<const std::string> names);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_
