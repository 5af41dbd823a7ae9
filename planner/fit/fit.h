#ifndef STOWAGE_PLANNER_FIT_FIT_H_
#define STOWAGE_PLANNER_FIT_FIT_H_

// Makes a training step fit a budget, at the least cost that the optimizations allow:
//
//   given          the unmodified step
//   choose         which optimizations to use, and how far
//   micro-batches  splits the batch, gradients accumulated
//   offload        keeps states and forward values in host memory
//   recompute      drops forward values and recomputes them in backward
//   order          runs the nodes in an order that needs less memory
//   fuse           runs several nodes as one, if the device can
//   prefetch       reloads from the host early, if the budget allows
//   validate       verifies the plan by independent code
//
// StepFitter::Fit in planner/fit/fit.cc follows this list. The caller passes a StepBuilder; a
// graph by itself is a step of one micro-batch.
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
  /// The budget is ignored. If the weight layout has states, they stay where it has them, in the
  /// arena or on the host, as a step over the arena of another plan requires (otherwise use
  /// WeightLayout::WithoutStates). The same holds for params, unless the layout is of
  /// WithoutStates.
  PlanOptions plan = {};
  MemoryOptimizations optimizations = {};
  /// The cost of nodes; empty: operations.
  CostFn cost = {};
  /// The cost of a byte copied between arena and host, in the unit of `cost`; absent:
  /// kOffloadFlopsPerByte, or kDiskFlopsPerByte if `optimizations` offload to disk.
  std::optional<double> cost_per_byte = std::nullopt;
  double CostPerByte() const {
    const bool on_disk = optimizations.offload == OffloadChoice::kDisk;
    return cost_per_byte.value_or(on_disk ? kDiskFlopsPerByte
                                          : kOffloadFlopsPerByte);
  }
  /// Search effort as a share of the usual, about two seconds for the recomputation of a
  /// thousand nodes. Counted in steps, not in time.
  double effort = 1;
  /// Called for every candidate, from several threads at once, to show progress. Plans do not
  /// depend on it.
  std::function<void()> on_choice = {};
};

class StepFitter {
 public:
  /// The backend of `options` must outlive this.
  StepFitter(StepBuilder build, FitOptions options);
  StepFitter(StepFitter&&) noexcept;
  StepFitter& operator=(StepFitter&&) noexcept;
  ~StepFitter();

  /// The cheapest step found that fits `budget`; without a budget, the fewest micro-batches and
  /// no other optimization. Numbers of micro-batches that the builder refuses with kUnsupported,
  /// for example because they would change the loss, are not tried if it accepts fewer. A
  /// larger budget never costs more, nor do more memory optimizations. Errors: kBudgetTooSmall
  /// with the budget, the need, the peak, the largest live buffers and the smallest budgets that
  /// work; kNotFound and kInvalidArgument for names that are not of a forward value; the
  /// builder's and PlanMemory's. Deterministic.
  Result<FittedStep> Fit(std::optional<Bytes> budget);

  /// The step of fewest micro-batches without other optimizations or a budget.
  Result<FittedStep> AsGiven();

  /// The smallest budget that Fit accepts with the optimizations of the options, or with others,
  /// whose names of values are ignored.
  Result<Bytes> SmallestBudget();
  Result<Bytes> SmallestBudget(const MemoryOptimizations& optimizations);

  /// All Pareto points, by falling arena and rising cost.
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

  // The step with tiles of logits divided by one of kTileParts.
  struct TileLevel {
    std::unique_ptr<fit::Grid> grid;
    int64_t rows = 0;  // of logits at a time
    double cost = 0;   // beyond the unmodified step
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
  std::optional<std::vector<TileLevel>> tile_levels_;    // but the first
  std::map<int64_t, std::unique_ptr<Ordered>> ordered_;  // by micro-batches
};

// A graph becomes a program in the same way for training steps, evaluation, generation and
// graphs of files:
//
//   epilogues      matmuls take over the ops that follow them, if the device can
//   optimizations  of a training step alone
//   plan           places every byte (planner/plan_memory.h)
//   fuse           runs several nodes as one, if that needs no larger arena
//
// StepFitter does this for steps, PlanProgram for all others, with the plan of a StepFitter
// without optimizations. PlanMemory alone plans an unmodified graph.
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

/// `graph` with what `options.device` does in one node made one node (docs/explanation/fusion.md),
/// and its plan. Inputs, params, states, caches and outputs keep their names, types and order;
/// other values may be gone. Epilogues do not depend on the plan, and other fusions change no
/// bit, so a graph computes the same in every budget and layout. Errors: those of PlanMemory; a
/// budget applies to the fused graph. Deterministic.
Result<PlannedGraph> PlanProgram(const Graph& graph,
                                 const PlanOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_PLANNER_FIT_FIT_H_
