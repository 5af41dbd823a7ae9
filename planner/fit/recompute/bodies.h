#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_

// What runs again inside the bodies of loops and branches.
//
// The workspace of a node with bodies is the arena of a body (planner/plan.h). The body of
// a loop that goes back and makes its iterations again first (planner/fit/recompute/iterations.h) is
// a small training step of its own: an iteration's forward part, and its gradient. What waits in
// it between the two can die and be made again as in any step, which lowers the workspace,
// and costs what runs again as often as there are iterations.
//
// How far each body is lowered is chosen for the whole graph at once, by *levels*: at each
// the nodes with bodies are held below a certain height of live bytes, those of the graph
// around them included, as far as that goes; from one level to the next the height falls.
// So a body that is not in the way stays as it is. The last level holds all of them as low
// as they get.
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

/// What runs again in the bodies of a graph, of which each is there once.
using BodyLevel = std::vector<BodyChange>;

/// What runs again in one body, and in all that are like it: whose nodes have the same
/// ops, phases, types and operands.
struct BodyChange {
  uint64_t likeness = 0;
  Script script = {};     // in the body
  BodyLevel inside = {};  // in the bodies in it
};

struct BodyLevelOptions {
  PlanOptions plan = {};  // its budget is not looked at
  /// Names of values that never run again, in whichever body they are. A name that the
  /// graph itself has means that value alone.
  std::vector<std::string> always_kept = {};
  CostFn cost = {};  // empty: operations
  /// How long to search, as for the step itself (RecomputeOptions).
  double effort = 1;
  std::function<void()> on_choice = {};
};

/// The most that FindBodyLevels finds.
inline constexpr size_t kMaxBodyLevels = 4;

/// The levels worth a look, by falling height and rising cost; none where nothing in a body
/// can run again to any avail. Bodies that hold collectives stay as they are, and
/// those whose arena is nothing beside the step. Takes a search for each body, and is
/// deterministic. Errors: those of rewriting a body, which there should be none of.
Result<std::vector<BodyLevel>> FindBodyLevels(const Graph& graph,
                                              const BodyLevelOptions& options);

/// A node in whose bodies something runs again. Of a branch, what is told is of the body
/// in which the most does.
struct LoweredNode {
  std::string node = {};  // its first result
  // Of one run of the node, all its iterations included.
  double extra_cost = 0;
  double flops_again = 0;
  int nodes_again = 0;  // views not counted
  /// What runs again, called "<value>@<first result of the node>"; freed are the bytes of
  /// one iteration.
  std::vector<RecomputedNode> told = {};
};

struct LoweredBodies {
  Graph graph;
  std::vector<LoweredNode> nodes = {};  // of `graph`, not those in its bodies
};

/// `graph` with what `level` says run again in its bodies. Nodes keep their places, values
/// their names. Error kInvalidArgument: a body cannot run again what is asked for. Linear
/// in nodes and what runs again.
Result<LoweredBodies> LowerBodies(const Graph& graph, const BodyLevel& level,
                                  const CostFn& cost);

/// Whether a node in a body of `graph`, at any depth, makes a value that is called so.
bool IsMadeInBody(const Graph& graph, std::string_view name);

/// `names`, and the first results of those nodes of `graph` in whose bodies something is
/// made that is called so, and nothing of `graph` itself is: as names of what is kept, these
/// keep iterations from being made again.
std::vector<std::string> WithNodesThatMake(const Graph& graph,
                                           std::span<const std::string> names);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_BODIES_H_
