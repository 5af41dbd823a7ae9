#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_

// Fits a training step into a budget by recomputing some forward values.
//
// A forward value that backward reads is live until then. Instead it can die after its last
// reader in forward, and be recomputed right before backward reads it: operations for bytes.
// Kernels are functions of their operands, dropout included, so no bit of the results changes.
//
// All budgets are searched at once, so that a larger budget never costs more (docs/explanation/budgets.md).
// planner/fit/variant.h decides which choice a budget takes.
//
//   RecomputeChoices choices(step, {}, {});
//   for (RecomputeChoice& choice : *choices.All()) {
//     Result<RecomputedGraph> made = choices.Make(choice.script);
//     made->plan.arena_bytes();  // mostly falls from choice to choice
//   }
//
// Small steps are solved exactly (exact.h). For others (SearchRecompute):
//
// 1. The corners of minimum cuts at several times (chain.h) are the start. From one corner to
//    the next, independent groups of values change one by one, the earliest layer first,
//    because its values are live longest. Dividing forward into segments adds candidates.
// 2. Changes of single values meet a series of targets (climb.h).
// 3. Changes of whole classes find the smallest budgets; single changes fill up and refine the
//    frontier.
// 4. If forward is a chain of equal pieces, its optimal schedules are known (chain.h).

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
  /// Names of values, or of their views, that are always kept and always recomputed.
  std::vector<std::string> always_kept = {};
  std::vector<std::string> always_recomputed = {};
  /// The cost of nodes; empty: operations.
  CostFn cost = {};
  /// Whether gradients may be recomputed too, which happens in small steps only.
  bool gradients = true;
  /// Search effort as a share of the usual, about two seconds for a thousand nodes.
  double effort = 1;
  /// Called with every choice that the search looks at.
  std::function<void()> on_choice = {};
};

/// One recompute schedule.
struct RecomputeChoice {
  Bytes least_arena = 0;  // by live bytes; packing may take more
  double cost = 0;        // extra
  Script script = {};
  // Once packed: of the step that was searched, and of the whole step that it may be a sample
  // of (planner/fit/micro_batches/micro_batches.h).
  std::optional<Bytes> arena = {};
  std::optional<Bytes> whole_arena = {};
};

/// A step with the recomputations of a script.
struct RecomputedGraph {
  Graph graph;
  Plan plan;
  Packer packer = Packer::kGreedy;  // of `plan`
  int nodes_again = 0;              // views not counted
  double flops_again = 0;
  double extra_cost = 0;
  std::vector<RecomputedNode> recomputed;  // most bytes freed first
};

/// The values recomputed in the latest run of `simulation` on `graph`, most bytes freed first.
/// Nodes that are recomputed only for another value count as its cost.
std::vector<RecomputedNode> ExplainRun(const Graph& graph,
                                       const Simulation& simulation);

class RecomputeChoices {
 public:
  /// `graph` and the backend of `options` must outlive this. The budget of `options` is
  /// ignored.
  RecomputeChoices(const Graph& graph, PlanOptions options,
                   RecomputeOptions recompute);

  /// The plan of the unmodified graph. Errors: PlanMemory's; kNotFound and kInvalidArgument
  /// for names that are not of a forward value.
  Result<Plan> PlanAsGiven();
  /// The cost of all nodes of the graph.
  double Cost() { return GetSimulation().cost(); }

  /// Runs the search. The choices by rising cost and falling peak; the first recomputes only
  /// what is always recomputed. Error kInvalidArgument: a value cannot be recomputed.
  Result<std::span<RecomputeChoice>> All();

  /// The graph with the recomputations of `script`. Error kInvalidArgument: a node of it cannot
  /// run there.
  Result<RecomputedGraph> Make(const Script& script);

  /// Prepares LeastExtraCost, once.
  Status Bound();
  /// A lower bound on the extra cost of any recomputation that fits `budget`, if the nodes keep
  /// their order; infinite if none fits. Runs no search, and stops once the bound is `enough`.
  Result<double> LeastExtraCost(
      Bytes budget, double enough = std::numeric_limits<double>::infinity());
  /// A lower bound on the arenas of All(), likewise.
  Result<Bytes> LeastArena();

 private:
  Simulation& GetSimulation();
  Status Prepare();

  // A time near the peak: the bytes that must be live, and the choices for the rest.
  struct FullTime {
    NodeId time = 0;
    Bytes forced = 0;
    std::vector<Tradeoff> tradeoffs = {};  // once computed
  };
  Status FindFullTimes();
  const std::vector<Tradeoff>& TradeoffsOf(FullTime& time) const;

  const Graph& graph_;
  PlanOptions options_;
  RecomputeOptions recompute_;
  std::vector<uint8_t> always_kept_, always_recomputed_;  // per value
  std::optional<Simulation> simulation_;                  // once prepared
  std::optional<Plan> given_;  // of the graph as it is
  Bytes reserved_ = 0;
  std::vector<RecomputeChoice> choices_;  // once searched
  std::optional<RecomputeBound> bound_;   // once computed
  std::vector<FullTime> full_times_;      // of the bound
  std::optional<Bytes> least_arena_;
};

/// A schedule that the search found.
struct FoundScript {
  Bytes peak = 0;   // of live bytes
  double cost = 0;  // extra
  Script script;
};

struct RecomputeSearchOptions {
  /// By value, as the user has decided. Empty: no decisions.
  std::vector<uint8_t> always_kept = {};
  std::vector<uint8_t> always_recomputed = {};
  bool gradients = true;  // may be recomputed too
  double effort = 1;      // as a share of the usual
  /// If set, called with every candidate.
  std::function<void()> on_choice = {};
};

/// The Pareto-optimal schedules found, by falling peak and rising extra cost; the first has
/// only the user's decisions. Effort is counted in simulations: deterministic.
std::vector<FoundScript> SearchRecompute(const Graph& graph,
                                         Simulation& simulation,
                                         const RecomputeSearchOptions& options);

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
