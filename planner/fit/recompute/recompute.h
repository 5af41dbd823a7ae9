#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_

// Fits a training step into a budget by recomputing some forward values.
//
// A forward value that the backward pass reads is live until it is read. Instead, the value can die
// after its last reader in the forward pass and be recomputed immediately before the backward pass
// reads it. This trades operations for memory. Kernels are functions of their operands, dropout
// included, so no bit of the results changes.
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
// Small steps are solved exactly (exact.h), unless the caller names values to keep or recompute.
// Other steps are searched (SearchRecompute) as follows:
//
// 1. The search starts from the corners of minimum cuts at several times (chain.h). From one corner
//    to the next, independent groups of values change one group at a time. The earliest layer
//    changes first, because its values are live longest. Divisions of the forward pass into
//    segments are further candidates.
// 2. Changes of single values lower the peak to a series of targets (climb.h).
// 3. Changes of whole classes of values find the smallest budgets. Changes of single values then
//    refine the frontier.
// 4. If the forward pass is a chain of equal segments, its optimal schedules are tried (chain.h).

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
  /// The search effort relative to the default, which is about two seconds for a thousand nodes.
  double effort = 1;
  /// If set, called with every candidate.
  std::function<void()> on_choice = {};
};

/// One schedule of recomputations.
struct RecomputeChoice {
  Bytes least_arena = 0;  // from live bytes; packing may need more
  double cost = 0;        // extra cost
  Script script = {};
  // Set after packing: the arena of the step that was searched, and the arena of the whole step if
  // the searched step is a sample of it (planner/fit/micro_batches/micro_batches.h).
  std::optional<Bytes> arena = {};
  std::optional<Bytes> whole_arena = {};
};

/// A step with the recomputations of a script, and its plan.
struct RecomputedGraph {
  Graph graph;
  Plan plan;
  Packer packer = Packer::kGreedy;  // that packed `plan`
  int nodes_again = 0;              // without views
  double flops_again = 0;
  double extra_cost = 0;
  std::vector<RecomputedNode> recomputed;  // most bytes freed first
};

/// Returns the values recomputed in the latest run of `simulation` on `graph`, most bytes freed
/// first. If a node is recomputed only as an operand of another recomputation, its operations are
/// added to that recomputation.
std::vector<RecomputedNode> ExplainRun(const Graph& graph,
                                       const Simulation& simulation);

class RecomputeChoices {
 public:
  /// `graph` and the backend of `options` must outlive the object. The budget of `options` is
  /// ignored.
  RecomputeChoices(const Graph& graph, PlanOptions options,
                   RecomputeOptions recompute);

  /// Returns the plan of the unmodified graph. Returns kNotFound if the graph has no value of a
  /// given name. Returns kInvalidArgument if a named value is not a forward value that can be
  /// dropped, or is to be both kept and recomputed. Propagates errors of PlanMemory.
  Result<Plan> PlanAsGiven();
  /// Returns the total cost of all nodes of the graph.
  double Cost() { return GetSimulation().cost(); }

  /// Runs the search and returns the choices by rising cost and falling peak. The first choice
  /// recomputes only the values that are always recomputed. Returns kInvalidArgument if one of them
  /// cannot be recomputed. Propagates errors of PlanAsGiven.
  Result<std::span<RecomputeChoice>> All();

  /// Returns the graph with the recomputations of `script`, and its plan. Returns kInvalidArgument
  /// if a node cannot be recomputed at its stage. Propagates errors of PlanMemory.
  Result<RecomputedGraph> Make(const Script& script);

  /// Prepares LeastExtraCost. Calls after the first have no effect.
  Status Bound();
  /// Returns a lower bound on the extra cost of any recomputation that fits `budget` and keeps the
  /// order of the nodes. Returns infinity if none fits. Does not run a search, and stops as soon as
  /// the bound reaches `enough`.
  Result<double> LeastExtraCost(
      Bytes budget, double enough = std::numeric_limits<double>::infinity());
  /// Returns a lower bound on the arenas of All(). Does not run a search.
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
  Bytes peak = 0;   // peak of live bytes
  double cost = 0;  // extra cost
  Script script;
};

struct RecomputeSearchOptions {
  /// By value: whether it must be kept, and whether it must be recomputed. Empty if no value must.
  std::vector<uint8_t> always_kept = {};
  std::vector<uint8_t> always_recomputed = {};
  bool gradients = true;  // gradients may be recomputed too
  double effort = 1;      // relative to the default
  /// If set, called with every candidate.
  std::function<void()> on_choice = {};
};

/// Returns the Pareto-optimal schedules found, by falling peak and rising extra cost. The first
/// schedule recomputes only the values that must be recomputed. Effort is counted in simulated
/// nodes, so the result is deterministic.
std::vector<FoundScript> SearchRecompute(const Graph& graph,
                                         Simulation& simulation,
                                         const RecomputeSearchOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
