#include "planner/fit/plan_program.h"

#include <utility>

#include "planner/fit/epilogues/epilogues.h"
#include "planner/fit/fuse/fuse.h"
#include "planner/fit/pieces/pieces.h"

namespace stowage {

Result<PlannedGraph> PlanProgram(const Graph& graph,
                                 const PlanOptions& options) {
  PlanOptions unbounded = options;
  unbounded.budget.reset();
  STOWAGE_ASSIGN_OR_RETURN(
      const PiecedStep formed,
      fit::FormEpilogues({.graph = graph}, options.device.fusions, {}));
  STOWAGE_ASSIGN_OR_RETURN(const Plan given,
                           PlanMemory(formed.graph, unbounded));
  STOWAGE_ASSIGN_OR_RETURN(fit::Fused fused,
                           fit::Fuse(formed.graph, given, unbounded));
  PlannedGraph program{std::move(fused.graph), std::move(fused.plan)};
  if (options.budget && program.plan.arena_bytes() > *options.budget) {
    // The refusal is PlanMemory's, unless a packer with a deadline does better now.
    STOWAGE_ASSIGN_OR_RETURN(program.plan, PlanMemory(program.graph, options));
  }
  return program;
}

}  // namespace stowage
