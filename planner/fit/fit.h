#ifndef STOWAGE_PLANNER_FIT_FIT_H_
#define STOWAGE_PLANNER_FIT_FIT_H_

// Fits a training step into a budget at the lowest cost that the allowed optimizations achieve.
//
// The step goes through these passes, which FittedStep::passes reports:
//
//   given          plans the unmodified step
//   choose         selects the optimizations and their extent
//   micro_batches  splits the batch and accumulates gradients
//   offload        keeps states, forward values and params in host memory
//   recompute      drops forward values and recomputes them in the backward pass
//   order          runs the nodes in an order that needs less memory
//   fuse           runs several nodes as one, if the device supports it
//   prefetch       reloads values from the host earlier, if the budget allows it
//   validate       verifies the plan by independent code (planner/validate_plan.h)
//
// The caller passes a StepBuilder (planner/fit/micro_batches/micro_batches.h), which returns the
// step for a given number of micro-batches. OfGraph returns the builder of a single graph, which is
// a step of one micro-batch.
//
//   StepFitter fitter(OfGraph(step), {.plan = {.device = cpu->Needs()}});
//   Result<FittedStep> fitted = fitter.Fit(64 << 20);
//   if (!fitted.ok()) Print(fitted.error().message);
//   for (const PassReport& pass : fitted->passes) Print(pass.name, pass.arena);

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "planner/fit/cost.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"

namespace stowage {

namespace fit {
class Grid;
}

struct FitOptions {
  /// The options of every plan. The budget is ignored. If `plan.weights` has states, these stay
  /// where `plan.weights` places them, in the arena or in host memory. This is necessary for a step
  /// that shares the arena of another plan. For other steps, use WeightLayout::WithoutStates.
  /// Params also stay where `plan.weights` places them, unless `plan.weights` is a result of
  /// WithoutStates.
  PlanOptions plan = {};
  MemoryOptimizations optimizations = {};
  /// The cost of each node. If empty, a node costs its number of operations.
  CostFn cost = {};
  /// The cost of a byte copied between arena and host, in the unit of `cost`. If absent, it is
  /// kDiskFlopsPerByte if `optimizations` offload to disk, otherwise kOffloadFlopsPerByte.
  std::optional<double> cost_per_byte = std::nullopt;
  double CostPerByte() const {
    const bool on_disk = optimizations.offload == OffloadChoice::kDisk;
    return cost_per_byte.value_or(on_disk ? kDiskFlopsPerByte
                                          : kOffloadFlopsPerByte);
  }
  /// The search effort relative to the default. At the default, the search for recomputations in a
  /// step of a thousand nodes takes about two seconds. The effort is counted in search steps, not
  /// in time.
  double effort = 1;
  /// If set, this function is called for every candidate, possibly from several threads at the same
  /// time, to show progress. Plans do not depend on it.
  std::function<void()> on_choice = {};
};

class StepFitter {
 public:
  /// Creates a fitter for the step of `build`. The backend whose needs are `options.plan.device`
  /// must outlive the fitter. `options.optimizations.micro_batches` must not be empty.
  StepFitter(StepBuilder build, FitOptions options);
  StepFitter(StepFitter&&) noexcept;
  StepFitter& operator=(StepFitter&&) noexcept;
  ~StepFitter();

  /// Returns the cheapest step found that fits `budget`. A larger budget never costs more, nor does
  /// a larger set of memory optimizations. Without a budget, returns the step with the fewest
  /// micro-batches. This step has no other optimizations except the node order, if
  /// NodeOrder::kMemory is set, and the recomputation of values that are always recomputed.
  /// Deterministic unless PlanOptions::deadline passes.
  ///
  /// A number of micro-batches for which the builder returns kUnsupported, for example because the
  /// loss would change, is skipped if the builder accepts a smaller number.
  ///
  /// Returns kBudgetTooSmall if no step fits. The message contains the budget, the bytes needed,
  /// the peak, the largest live buffers and the smallest budgets that work. Returns kNotFound or
  /// kInvalidArgument if a name of a value that is always kept or recomputed does not refer to a
  /// forward value that can be dropped. Returns kInvalidArgument for more than kMaxMicroBatches
  /// micro-batches. Propagates errors of the builder and of PlanMemory.
  Result<FittedStep> Fit(std::optional<Bytes> budget);

  /// Returns the step with the fewest micro-batches, fused but without memory optimizations or a
  /// budget.
  Result<FittedStep> AsGiven();

  /// Returns the smallest budget that Fit accepts, or errors like Fit. The second overload uses
  /// `optimizations` instead of FitOptions::optimizations, except for the names of values that are
  /// always kept or recomputed.
  Result<Bytes> SmallestBudget();
  Result<Bytes> SmallestBudget(const MemoryOptimizations& optimizations);

  /// Returns all Pareto points found, by falling arena and rising cost. With NodeOrder::kMemory,
  /// the points have the fewest micro-batches, the order that needs the least memory, and the given
  /// tiles of logits.
  Result<std::vector<ParetoPoint>> Frontier();

  const FitOptions& options() const { return options_; }

 private:
  struct Ordered;
  struct Refused;

  StepBuilder Noting(StepBuilder build) const;
  template <typename T>
  Result<T> WithoutRefused(std::vector<int64_t>& micro_batches,
                           const std::function<Result<T>()>& run);
  Result<FittedStep> FitOnce(std::optional<Bytes> budget);
  Result<Bytes> SmallestOnce(const MemoryOptimizations& optimizations);
  Result<std::vector<ParetoPoint>> FrontierOnce();

  // A step whose tiles of logits are divided into a number of kTileParts.
  struct TileLevel {
    std::unique_ptr<fit::Grid> grid;
    int64_t rows = 0;  // of logits at a time
    double cost = 0;   // in addition to the unmodified step
  };
  Result<std::span<TileLevel>> TileLevels();
  Status TakeTiles(Bytes budget, std::optional<FittedStep>* step);
  Result<Bytes> SmallestInOrder(const MemoryOptimizations& optimizations);
  Result<std::vector<ParetoPoint>> WithTiles(std::vector<ParetoPoint> points);

  Result<FittedStep> Choose(Bytes budget);
  Result<Ordered*> InMemoryOrder(int64_t micro_batches);
  Result<FittedStep> TakeOrder(Result<FittedStep> step, Bytes budget);
  Result<bool> FuseNodes(FittedStep* step) const;
  Result<bool> ReloadEarly(Bytes budget, FittedStep* step) const;
  Error Refusal(Bytes budget);

  std::shared_ptr<Refused> refused_;
  StepBuilder build_;
  FitOptions options_;
  std::unique_ptr<fit::Grid> grid_;
  std::optional<std::vector<TileLevel>> tile_levels_;    // of smaller tiles
  std::map<int64_t, std::unique_ptr<Ordered>> ordered_;  // by micro-batches
};

// Training steps, evaluation, generation and imported graphs become programs by the same passes:
//
//   epilogues      lets matmuls also compute the ops that follow them, if the device supports it
//   optimizations  applies memory optimizations, for training steps only
//   plan           places every byte (planner/plan_memory.h)
//   fuse           runs several nodes as one, if that needs no larger arena
//
// StepFitter runs these passes for training steps, and PlanProgram runs them for all other graphs.
// PlanProgram returns the same plan as a StepFitter without optimizations. PlanMemory plans a graph
// without modifying it.
//
//   PlanOptions options{.weights = WeightLayout::FromForward(step, *step_plan),
//                       .device = cpu->Needs()};
//   Result<PlannedGraph> eval = PlanProgram(model, options);
//   Session::Create({{"train", step, *step_plan}, {"eval", eval->graph, eval->plan}},
//                   *cpu);

/// A graph to run, and its plan.
struct PlannedGraph {
  Graph graph;
  Plan plan;  // for `graph`
};

/// Returns `graph`, with nodes combined that `options.device` can run as one node
/// (docs/explanation/fusion.md), and a plan for it. Inputs, params, states, caches and outputs keep
/// their names, types and order. Other values may be removed. Epilogues do not depend on the plan,
/// and other fusions do not change any bit, so a graph gives the same results in every budget and
/// layout. `options.budget` applies to the fused graph. Propagates errors of PlanMemory.
/// Deterministic unless the deadline passes.
Result<PlannedGraph> PlanProgram(const Graph& graph,
                                 const PlanOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_PLANNER_FIT_FIT_H_
