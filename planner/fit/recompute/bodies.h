#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_

// Recomputes values inside the bodies of loops and branches.
//
// The workspace of a node with bodies is the arena of a body (planner/plan.h). The body of a
// backward loop that recomputes its iterations (planner/fit/recompute/iterations.h) is a small
// training step. It contains the forward part of an iteration and the gradient of that part.
// Values of the forward part can be dropped and recomputed as in any step. This reduces the
// workspace and adds operations to every iteration.
//
// Recomputation is chosen for all bodies together, by *levels*. Each level is a limit on the bytes
// that are live while a node with bodies runs, in its bodies and in the graph around it. The limit
// falls from level to level. Recomputation is added to a body until the body is within the limit,
// or as far as possible. Bodies that are already within the limit are unmodified. The last level
// reduces the memory of every body as far as possible.
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

/// The recomputations in the bodies of a graph. Each body is listed once.
using BodyLevel = std::vector<BodyChange>;

/// The recomputations in one body and in all bodies like it. Two bodies are alike if their nodes
/// have the same ops, phases, types and operands.
struct BodyChange {
  uint64_t likeness = 0;
  Script script = {};     // in the body itself
  BodyLevel inside = {};  // in the bodies of its nodes
};

struct BodyLevelOptions {
  PlanOptions plan = {};  // the budget is ignored
  /// Names of values that are never recomputed, in any body. If `graph` itself has a value of the
  /// name, values in bodies are not affected.
  std::vector<std::string> always_kept = {};
  /// The cost of each node. If empty, a node costs its number of operations.
  CostFn cost = {};
  /// The search effort, relative to the default, as for the step itself (RecomputeOptions).
  double effort = 1;
  std::function<void()> on_choice = {};
};

/// The maximum number of levels that FindBodyLevels returns.
inline constexpr size_t kMaxBodyLevels = 4;

/// Returns the levels to try, by falling limit and rising cost. Returns none if no recomputation
/// in a body saves memory. Bodies with collectives and bodies with negligible arenas are
/// unmodified. Each body is searched. Deterministic. Propagates errors of rewriting a body, which
/// indicate a bug.
Result<std::vector<BodyLevel>> FindBodyLevels(const Graph& graph,
                                              const BodyLevelOptions& options);

/// A node with recomputation in its bodies. For a branch, the figures refer to the body
/// whose recomputation costs most.
struct LoweredNode {
  std::string node = {};  // name of its first result
  // The following are for one run of the node, with all its iterations.
  double extra_cost = 0;
  double flops_again = 0;
  int nodes_again = 0;  // without views
  /// The recomputed values, named "<value>@<first result of the node>". Their `freed` counts one
  /// iteration.
  std::vector<RecomputedNode> told = {};
};

struct LoweredBodies {
  Graph graph;
  std::vector<LoweredNode> nodes = {};  // of `graph`, not of its bodies
};

/// Returns `graph` with the recomputations of `level` in its bodies. Nodes keep their indices, and
/// values keep their names. Returns kInvalidArgument if a recomputation is impossible. Linear in
/// nodes and recomputations.
Result<LoweredBodies> LowerBodies(const Graph& graph, const BodyLevel& level,
                                  const CostFn& cost);

/// Returns whether a node in a body of `graph`, at any depth, has a result of this name.
bool IsMadeInBody(const Graph& graph, std::string_view name);

/// Returns `names`, followed by the first results of some nodes of `graph`. These are the nodes
/// whose bodies compute a value with one of the names, if `graph` itself has no value of that name.
/// If the returned values are always kept, the iterations of these nodes are not recomputed.
std::vector<std::string> WithNodesThatMake(const Graph& graph,
                                           std::span<const std::string> names);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_
