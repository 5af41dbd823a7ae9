#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_

// Fits a training step into a budget by making some forward values twice.
//
// Backward reads what forward made, and until then it takes up bytes. A value
// can die after its last reader in forward instead, and be made again from what
// is still there right before backward wants it: bytes for operations. Kernels
// are functions of their operands, dropout included, so the results do not change
// by a bit.
//
// The choices for all budgets are searched at once, so that a larger budget
// never costs more: see planner/fit/recompute/search.h for how, docs/explanation/budgets.md
// for the whole. Which of them a budget takes, planner/fit/variant.h decides.
//
//   RecomputeChoices choices(step, {}, {});
//   for (RecomputeChoice& choice : *choices.All()) {
//     Result<RecomputedGraph> made = choices.Make(choice.script);
//     made->plan.arena_bytes();  // falls from choice to choice, mostly
//   }

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
  /// Names of values, or of views of them, that are never dropped, and of those
  /// that always are.
  std::vector<std::string> always_kept = {};
  std::vector<std::string> always_recomputed = {};
  /// What choices and bounds go by; empty: operations.
  CostFn cost = {};
  /// Whether gradients may run again too, which they do in small steps only.
  bool gradients = true;
  /// How long to search for choices, as a share of the usual: about two seconds
  /// for a step of a thousand nodes.
  double effort = 1;
  /// Called with every choice that the search looks at.
  std::function<void()> on_choice = {};
};

/// What may run again, together.
struct RecomputeChoice {
  Bytes least_arena = 0;  // of what is alive; packing may take more
  double cost = 0;        // extra
  Script script = {};     // what runs again
  // Once packed: of the step that was searched, and of the whole step that it may
  // be a sample of (planner/fit/micro_batches/micro_batches.h).
  std::optional<Bytes> arena = {};
  std::optional<Bytes> whole_arena = {};
};

/// A step with what a script says run again.
struct RecomputedGraph {
  Graph graph;
  Plan plan;
  int nodes_again = 0;  // views not counted
  double flops_again = 0;
  double extra_cost = 0;
  std::vector<RecomputedNode> recomputed;  // most bytes freed first
};

/// What runs again in the latest run of `simulation` on `graph`, most bytes freed first.
/// What runs again only for another's sake is part of the other's cost.
std::vector<RecomputedNode> ExplainRun(const Graph& graph,
                                       const Simulation& simulation);

class RecomputeChoices {
 public:
  /// `graph` and the backend of `options` must outlive this. The budget of
  /// `options` is not looked at.
  RecomputeChoices(const Graph& graph, PlanOptions options,
                   RecomputeOptions recompute);

  /// The plan of the graph as it is. Errors: PlanMemory's; kNotFound and
  /// kInvalidArgument for names that are no forward value's.
  Result<Plan> PlanAsGiven();
  /// What the nodes of the graph cost together.
  double Cost() { return GetSimulation().cost(); }

  /// The choices found, by rising cost and falling need. The first is the graph
  /// as it is, but for what is always made again. Takes the search. Error
  /// kInvalidArgument: what is always made again cannot be.
  Result<std::span<RecomputeChoice>> All();

  /// The graph with what `script` says run again. Error kInvalidArgument: a node
  /// of it cannot run there.
  Result<RecomputedGraph> Make(const Script& script);

  /// All that LeastExtraCost takes, once.
  Status Bound();
  /// No recomputation that fits `budget` costs less, if the nodes keep their
  /// order; infinite when none can fit. Takes no search. A bound that is as much
  /// as `enough` already is not raised further, which takes time.
  Result<double> LeastExtraCost(
      Bytes budget, double enough = std::numeric_limits<double>::infinity());
  /// None of All() takes a smaller arena, likewise.
  Result<Bytes> LeastArena();

 private:
  Simulation& GetSimulation();
  Status Prepare();

  // A moment at which bytes are expensive: what must be there, what may be.
  struct FullTime {
    NodeId time = 0;
    Bytes forced = 0;
    std::vector<Tradeoff> tradeoffs = {};  // once they were wanted
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
  std::optional<RecomputeBound> bound_;   // once it was wanted
  std::vector<FullTime> full_times_;      // of the bound
  std::optional<Bytes> least_arena_;
};

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
