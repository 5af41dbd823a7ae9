#ifndef STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
#define STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_

// Fits a training step into a budget by making some forward values twice.
//
// Backward reads what forward made, and until then it takes up bytes. A value
// can die after its last reader in forward instead, and be made again from what
// is still there right before backward wants it: bytes for operations. The
// planner finds which values to drop so that the packed arena fits the budget
// at the least extra cost it can find, in operations or in measured time
// (planner/fit/op_times.h), and says how little it could possibly have been. Kernels are functions of their operands, dropout
// included, so the results do not change by a bit.
//
// The choices for all budgets are searched at once, so that a larger budget
// never costs more: see planner/fit/recompute/search.h for how, docs/budgets.md for
// the whole.
//
//   RecomputePlanner planner(step, {.weights = &weights});
//   Result<RecomputedPlan> fitted = planner.PlanFor(64 << 20);
//   if (fitted.ok()) Run(fitted->graph, fitted->plan);

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/fit/recompute/bound.h"
#include "planner/fit/recompute/search.h"
#include "planner/fit/recompute/rehearsal.h"

namespace stowage::fit {

/// `kCheap` is for what costs nearly nothing: elementwise ops and norms.
enum class Recompute : uint8_t { kNone, kCheap, kAuto };
std::string_view RecomputeName(Recompute recompute);
/// Error kInvalidArgument for anything but "none", "cheap" and "auto".
Result<Recompute> ParseRecompute(std::string_view name);

/// The most that kCheap may add to what a step costs.
inline constexpr double kCheapShare = 0.01;

struct RecomputeOptions {
  Recompute recompute = Recompute::kAuto;
  /// Names of values, or of views of them, that are never dropped, and of those
  /// that always are. Not looked at with kNone.
  std::vector<std::string> always_kept = {};
  std::vector<std::string> always_remade = {};
  /// What choices and bounds go by; empty: operations. See planner/fit/recompute/rehearsal.h.
  CostFn cost = {};
  /// Whether gradients may run again too, which they do in small steps only.
  bool gradients = true;
  /// How long to search for choices, as a share of the usual: about two seconds
  /// for a step of a thousand nodes.
  double effort = 1;
};

/// A node that runs again, and why.
struct Remade {
  std::string name;  // of its first dropped result
  Bytes freed = 0;   // bytes of its results that would be kept otherwise
  double flops =
      0;          // of its further runs, and of what runs again for them only
  int times = 0;  // how often it runs again
};

struct RecomputedPlan {
  Graph graph;               // the one given, when nothing runs again
  Plan plan;                 // for `graph`
  int recomputed_nodes = 0;  // views not counted
  double extra_flops = 0;
  double extra_percent = 0;  // of the step's operations without
  double extra_cost = 0;     // by RecomputeOptions::cost
  /// No recomputation that fits the budget costs less, whatever is dropped and
  /// when, if the nodes of the step keep their order. 0 without a budget.
  double least_extra_cost = 0;
  std::vector<Remade> remade;  // most bytes freed first
  Script script;               // what runs again, in the nodes of the one given
};

/// One bargain: the smallest budget it fits, and what it costs.
struct FrontierPoint {
  Bytes arena = 0;
  double extra_flops = 0;
  double extra_percent = 0;
  double extra_cost = 0;
  double least_extra_cost = 0;
  int recomputed_nodes = 0;
  Script script = {};  // what runs again
};

class RecomputePlanner {
 public:
  /// `graph` and what `options` points at must outlive this. Options' budget is
  /// not looked at.
  RecomputePlanner(const Graph& graph, PlanOptions options,
                   RecomputeOptions recompute = {});

  /// The plan that fits `budget` at the least extra cost found; the plan
  /// of the graph as it is when that fits, or without a budget. Errors:
  /// kBudgetTooSmall, which names the smallest budget without and with
  /// recomputation; those of PlanMemory; kNotFound and kInvalidArgument for
  /// names that are no forward value's.
  Result<RecomputedPlan> PlanFor(std::optional<Bytes> budget);

  /// The plan of the graph with what `script` says run again. Error
  /// kInvalidArgument: a node of it cannot run there.
  Result<RecomputedPlan> PlanScript(const Script& script);

  /// The smallest budget that PlanFor would not refuse with this much
  /// recomputation; what is always kept or remade still is.
  Result<Bytes> SmallestBudget(Recompute recompute);

  /// No recomputation that fits `budget` costs less, if the nodes keep their
  /// order; infinite when none can fit. Takes no search.
  Result<double> LeastExtraCost(Bytes budget);

  /// The plan of the graph as it is, and what its nodes cost together.
  Result<Plan> PlanAsGiven();
  double Cost();

  /// The plan of that budget.
  Result<RecomputedPlan> SmallestPlan(Recompute recompute);

  /// All bargains between the step as it is and the smallest budget, by falling
  /// arena and rising cost.
  Result<std::vector<FrontierPoint>> Frontier();

 private:
  struct Choice {
    Bargain bargain;
    std::optional<Bytes> arena;  // once packed
  };

  bool IsAllowed(const Choice& choice, Recompute recompute) const;
  Error Refusal(Bytes budget);
  Rehearsal& GetRehearsal();
  Status Prepare();
  Status Bound();
  Status Search();
  Result<Bytes> Arena(Choice& choice);
  Result<Choice*> Smallest(Recompute recompute);
  double ExtraFlops() const;
  double LeastFor(Bytes budget) const;
  std::vector<Remade> Explain() const;

  struct FullTime {
    Bytes forced;
    std::vector<Tradeoff> tradeoffs;
  };

  const Graph& graph_;
  PlanOptions options_;
  RecomputeOptions recompute_;
  RecomputeSearchOptions decisions_;
  std::optional<Rehearsal> rehearsal_;  // once prepared
  std::optional<Plan> given_;           // of the graph as it is
  Bytes reserved_ = 0;
  std::vector<Choice> choices_;  // once searched; as SearchRecompute's
  std::vector<FullTime> full_times_;
};

/// RecomputePlanner(graph, options, recompute).PlanFor(options.budget).
Result<RecomputedPlan> PlanWithRecompute(
    const Graph& graph, const PlanOptions& options,
    const RecomputeOptions& recompute = {});

}  // namespace stowage::fit

#endif  // STOWAGE_PLANNER_FIT_RECOMPUTE_RECOMPUTE_H_
