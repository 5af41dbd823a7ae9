#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_

// Fits a training step into a budget by recomputing some forward values.
//
// A forward value that the backward pass reads is live until it is read. Instead, the value can die
// after its last reader in the forward pass and be recomputed immediately before the backward pass
// reads it. This trades operations for memory. Kernels, including dropout, are functions of their
// operands, so no bit of the results changes.
//
// One search covers all budgets, so a larger budget never costs more
// (docs/explanation/budgets.md). planner/fit/variant.h selects the choice for a budget.
//
//   RecomputeChoices choices(step, {}, {});
//   for (RecomputeChoice& choice : *choices.All()) {
//     Result<RecomputedGraph> made = choices.Make(choice.script);
//     made->plan.arena_bytes();  // usually falls from choice to choice
//   }
//
// SearchRecompute solves small steps exactly (planner/fit/recompute/exact.h), unless the caller
// names values to keep or recompute. It searches other steps as follows:
//
// 1. The search starts from the corners of minimum cuts at several times (RecomputeBound in
//    planner/fit/recompute/chain.h). From one corner to the next, independent groups of values
//    change one group at a time. The earliest layer changes first, because its values are live
//    longest. Divisions of the forward pass into segments are further candidates.
// 2. Changes of single values lower the peak to a series of targets
//    (planner/fit/recompute/climb.h).
// 3. Changes of whole classes of values find the smallest budgets. Changes of single values then
//    refine the frontier.
// 4. If the forward pass is a chain of equal segments (planner/fit/recompute/chain.h), the optimal
//    schedules of the chain are tried.

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/cost.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/recompute/chain.h"
#include "planner/fit/recompute/simulation.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage::fit {

struct RecomputeOptions {
  /// Names of values that are always kept, and of values that are always recomputed. The name of a
  /// view refers to the value that it views.
  std::vector<std::string> always_kept = {};
  std::vector<std::string> always_recomputed = {};
  /// The cost of each node. If empty, a node costs its number of operations.
  CostFn cost = {};
  /// If set, gradients may be recomputed too. This applies only to small steps.
  bool gradients = true;
  /// The search effort relative to the default. At the default, a step of a thousand nodes takes
  /// about two seconds.
  double effort = 1;
  /// If set, this function is called for every candidate.
  std::function<void()> on_choice = {};
};

/// One schedule of recomputations.
struct RecomputeChoice {
  /// The arena if packing reaches the peak of live bytes. It may need more.
  Bytes least_arena = 0;
  double cost = 0;  // The extra cost.
  Script script = {};
  /// The arena of the step that was searched, after it has been packed.
  std::optional<Bytes> arena = {};
  /// The arena of the whole step, after it has been packed, if the step that was searched is a
  /// sample (planner/fit/micro_batches/micro_batches.h).
  std::optional<Bytes> whole_arena = {};
};

/// A step with the recomputations of a script, and its plan.
struct RecomputedGraph {
  Graph graph;
  Plan plan;
  Packer packer = Packer::kGreedy;  // The packer of `plan`.
  /// The number of recomputations, without views and reloads.
  int nodes_again = 0;
  double flops_again = 0;
  double extra_cost = 0;
  std::vector<RecomputedNode> recomputed;  // Most bytes freed first.
};

/// Returns the values that are recomputed in the latest run of `simulation`, a simulation of
/// `graph`, most bytes freed first. If a node is recomputed only because another recomputation
/// reads its result, its operations are added to the other recomputation.
std::vector<RecomputedNode> ExplainRun(const Graph& graph,
                                       const Simulation& simulation);

class RecomputeChoices {
 public:
  /// `graph`, and the backend whose needs are `options.device`, must outlive the object. The budget
  /// of `options` is ignored.
  RecomputeChoices(const Graph& graph, PlanOptions options,
                   RecomputeOptions recompute);

  /// Returns the plan of the unmodified graph. Returns kNotFound if the graph has no value with a
  /// name in the options. Returns kInvalidArgument if the value of such a name cannot be dropped
  /// (MayBeDropped in planner/fit/recompute/simulation.h), or if it is named as always kept and as
  /// always recomputed. Propagates errors of PlanMemory.
  Result<Plan> PlanAsGiven();
  /// Returns the total cost of all nodes of the graph, without recomputation.
  double Cost() { return GetSimulation().cost(); }

  /// Returns the choices by rising cost and falling peak. The first call runs the search. The first
  /// choice recomputes only the values that are always recomputed. Returns kInvalidArgument if one
  /// of these values cannot be recomputed. Propagates errors of PlanAsGiven.
  Result<std::span<RecomputeChoice>> All();

  /// Returns the graph with the recomputations of `script`, and its plan. Returns kInvalidArgument
  /// if a node cannot be recomputed at its stage (Rerun::stage). Propagates errors of PlanMemory.
  Result<RecomputedGraph> Make(const Script& script);

  /// Does the slow work of LeastExtraCost in advance. Calls after the first have no effect.
  /// Propagates errors of PlanAsGiven, as do the next two functions.
  Status Bound();
  /// Returns a lower bound on the extra cost of any recomputation that fits `budget` and keeps the
  /// order of the nodes. Returns infinity if no recomputation fits. Does not run a search, and
  /// stops as soon as the bound reaches `enough`.
  Result<double> LeastExtraCost(
      Bytes budget, double enough = std::numeric_limits<double>::infinity());
  /// Returns a lower bound on the arenas of all choices, without a search.
  Result<Bytes> LeastArena();

 private:
  Simulation& GetSimulation();
  Status Prepare();

  // A time near the peak, the bytes that must be live at that time, and the choices for the rest.
  struct FullTime {
    NodeId time = 0;
    Bytes forced = 0;
    std::vector<Tradeoff> tradeoffs = {};  // empty until computed
  };
  Status FindFullTimes();
  const std::vector<Tradeoff>& TradeoffsOf(FullTime& time) const;

  const Graph& graph_;
  PlanOptions options_;
  RecomputeOptions recompute_;
  std::vector<uint8_t> always_kept_, always_recomputed_;  // by value
  std::optional<Simulation> simulation_;  // empty until prepared
  std::optional<Plan> given_;             // plan of the unmodified graph
  Bytes reserved_ = 0;
  std::vector<RecomputeChoice> choices_;  // empty until searched
  std::optional<RecomputeBound> bound_;   // empty until computed
  std::vector<FullTime> full_times_;      // times that the bound considers
  std::optional<Bytes> least_arena_;
};

/// A schedule found by the search.
struct FoundScript {
  Bytes peak = 0;   // The peak of live bytes.
  double cost = 0;  // The extra cost.
  Script script;
};

struct RecomputeSearchOptions {
  /// For each value, 1 if it must be kept, otherwise 0. Empty if no value must be kept.
  std::vector<uint8_t> always_kept = {};
  /// For each value, 1 if it must be recomputed, otherwise 0. Empty if no value must be recomputed.
  std::vector<uint8_t> always_recomputed = {};
  bool gradients = true;  // See RecomputeOptions::gradients.
  double effort = 1;      // See RecomputeOptions::effort.
  /// If set, this function is called for every candidate.
  std::function<void()> on_choice = {};
};

/// Returns the Pareto-optimal schedules that the search finds, by falling peak and rising extra
/// cost. `simulation` must be a simulation of `graph`. The first schedule recomputes only the
/// values that must be recomputed. Returns no schedules if one of these values cannot be
/// recomputed. Effort is counted in simulated nodes, so the result is deterministic.
std::vector<FoundScript> SearchRecompute(const Graph& graph,
                                         Simulation& simulation,
                                         const RecomputeSearchOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
