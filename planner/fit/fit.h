#ifndef STOWAGE_PLANNER_FIT_FIT_H_
#define STOWAGE_PLANNER_FIT_FIT_H_

// Fits a training step into a budget at the lowest cost that the allowed optimizations achieve.
//
// The step goes through these passes:
//
//   given          the unmodified step
//   choose         selects the optimizations and their extent
//   micro-batches  splits the batch and accumulates gradients
//   offload        keeps states, forward values and params in host memory
//   recompute      drops forward values and recomputes them in the backward pass
//   order          runs the nodes in an order that needs less memory
//   fuse           runs several nodes as one, if the device supports it
//   prefetch       reloads values from the host earlier, if the budget allows it
//   validate       verifies the plan by independent code
//
// StepFitter::Fit in planner/fit/fit.cc follows this list. The caller passes a StepBuilder. A
// single graph is a step of one micro-batch.
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
  /// The options of every plan, without a budget, which is ignored. If `plan.weights` has states,
  /// they stay where it places them, in the arena or on the host. This is necessary for a step that
  /// shares the arena of another plan. Otherwise use WeightLayout::WithoutStates. Params also stay
  /// where `plan.weights` places them, unless it is a result of WithoutStates.
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
  /// The search effort relative to the default, which is about two seconds for the recomputation of
  /// a thousand nodes. Counted in search steps, not in time.
  double effort = 1;
  /// If set, called for every candidate, possibly from several threads at the same time, to show
  /// progress. Plans do not depend on it.
  std::function<void()> on_choice = {};
};

class StepFitter {
 public:
  /// The backend of `options` must outlive the fitter.
  StepFitter(StepBuilder build, FitOptions options);
  StepFitter(StepFitter&&) noexcept;
  StepFitter& operator=(StepFitter&&) noexcept;
  ~StepFitter();

  /// Returns the cheapest step found that fits `budget`. A larger budget never costs more, nor does
  /// a larger set of memory optimizations. Without a budget, returns the step with the fewest
  /// micro-batches. That step has no other optimization except the node order, if
  /// NodeOrder::kMemory is set, and the values that are always recomputed. Deterministic.
  ///
  /// A number of micro-batches for which the builder returns kUnsupported, for example because the
  /// loss would change, is skipped if the builder accepts a smaller number.
  ///
  /// Returns kBudgetTooSmall if no step fits. The message contains the budget, the bytes needed,
  /// the peak, the largest live buffers and the smallest budgets that work. Returns kNotFound or
  /// kInvalidArgument for names that do not refer to a forward value. Propagates errors of the
  /// builder and of PlanMemory.
  Result<FittedStep> Fit(std::optional<Bytes> budget);

  /// Returns the step with the fewest micro-batches, without other optimizations or a budget.
  Result<FittedStep> AsGiven();

  /// Returns the smallest budget that Fit accepts. The second form uses `optimizations` instead of
  /// those in the options, except for the names of values that are always kept or recomputed.
  Result<Bytes> SmallestBudget();
  Result<Bytes> SmallestBudget(const MemoryOptimizations& optimizations);

  /// Returns all Pareto points, by falling arena and rising cost. With NodeOrder::kMemory, the
  /// points have the fewest micro-batches, in the order that needs the least memory.
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

// A graph becomes a program in the same way for training steps, evaluation, generation and imported
// graphs:
//
//   epilogues      matmuls also compute the ops that follow them, if the device supports it
//   optimizations  memory optimizations, for training steps only
//   plan           places every byte (planner/plan_memory.h)
//   fuse           runs several nodes as one, if that needs no larger arena
//
// StepFitter does this for training steps, and PlanProgram for all other graphs. PlanProgram gives
// the plan that a StepFitter without optimizations gives. PlanMemory plans an unmodified graph.
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

/// Returns `graph` with nodes combined that `options.device` can run as one node
/// (docs/explanation/fusion.md), and its plan. Inputs, params, states, caches and outputs keep
/// their names, types and order. Other values may be removed. Epilogues do not depend on the plan,
/// and other fusions do not change a bit, so a graph gives the same results in every budget and
/// layout. Propagates errors of PlanMemory. A budget applies to the fused graph. Deterministic.
Result<PlannedGraph> PlanProgram(const Graph& graph,
                                 const PlanOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_PLANNER_FIT_FIT_H_
