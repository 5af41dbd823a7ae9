#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_

// Recomputes values inside the bodies of loops and branches.
//
// The workspace of a node with bodies is the largest arena of a body (planner/plan.h). The body of
// a backward loop that recomputes the iterations of its forward loop
// (planner/fit/recompute/iterations.h) is a small training step: it first computes the values of an
// iteration and then their gradients. As in any step, values of the first part can be dropped and
// recomputed. This reduces the workspace and adds operations to every iteration.
//
// Recomputation is chosen for all bodies together, by *levels*. Each level corresponds to a limit
// on the bytes that are live while a node with bodies runs, in its bodies and in the graph around
// it. The limit falls from level to level. Recomputations are added to a body until the live bytes
// are within the limit, or as far as possible. Bodies that are already within the limit are
// unmodified. The last level reduces the memory of every body as far as possible.
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

/// The recomputations in the bodies of a graph. Bodies that are alike have one entry.
using BodyLevel = std::vector<BodyChange>;

/// The recomputations in one body and in all bodies like it. Two bodies are alike if their values
/// have the same types, and their nodes have the same ops, phases and operands. Names and
/// attributes may differ.
struct BodyChange {
  /// A hash that bodies have in common if they are alike.
  uint64_t likeness = 0;
  Script script = {};     // The recomputations in the body itself.
  BodyLevel inside = {};  // The recomputations in the bodies of its nodes.
};

struct BodyLevelOptions {
  PlanOptions plan = {};  // The budget is ignored.
  /// Names of values that are never recomputed in any body. A name of a value of the graph itself
  /// does not affect values of this name in bodies.
  std::vector<std::string> always_kept = {};
  /// The cost of each node. If empty, a node costs its number of operations.
  CostFn cost = {};
  /// The search effort, relative to the default (RecomputeOptions::effort).
  double effort = 1;
  /// If set, this function is called with every candidate.
  std::function<void()> on_choice = {};
};

/// The maximum number of levels that FindBodyLevels returns.
inline constexpr size_t kMaxBodyLevels = 4;

/// Returns the levels to try, by falling limit and rising cost. The result is empty if no
/// recomputation in a body saves memory. Bodies with collectives are unmodified, and so are bodies
/// whose arena is below 1/64 of the peak. Bodies that are alike are searched once. Propagates
/// errors of rewriting a body, which indicate a bug. Deterministic unless PlanOptions::deadline
/// passes.
Result<std::vector<BodyLevel>> FindBodyLevels(const Graph& graph,
                                              const BodyLevelOptions& options);

/// A node with recomputation in its bodies. For a branch, the figures refer to the body
/// whose recomputation costs most.
struct LoweredNode {
  std::string node = {};  // The name of its first result.
  // The following figures are for one run of the node, with all its iterations.
  double extra_cost = 0;
  double flops_again = 0;
  int nodes_again = 0;  // The number of recomputations, without views.
  /// The recomputed values, named "<value>@<first result of the node>". Their `freed` counts one
  /// iteration.
  std::vector<RecomputedNode> told = {};
};

struct LoweredBodies {
  Graph graph;
  std::vector<LoweredNode> nodes = {};  // Nodes of `graph`, not of its bodies.
};

/// Returns `graph` with the recomputations of `level` in its bodies. `cost` is the cost of each
/// node. If it is empty, a node costs its number of operations. The nodes of `graph` keep their
/// indices, and its values keep their names. Returns kInvalidArgument if a recomputation is
/// impossible. Linear in the number of nodes and recomputations.
Result<LoweredBodies> LowerBodies(const Graph& graph, const BodyLevel& level,
                                  const CostFn& cost);

/// Returns whether a node in a body of `graph`, at any depth, has a result of this name.
bool IsMadeInBody(const Graph& graph, std::string_view name);

/// Returns `names`, followed by the names of the first results of some nodes of `graph`. These are
/// the nodes whose bodies compute a value with one of the names, if `graph` itself has no value of
/// this name. If the returned names are always kept, the iterations of these nodes are not
/// recomputed (IterationOptions::kept).
std::vector<std::string> WithNodesThatMake(const Graph& graph,
                                           std::span<const std::string> names);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_
