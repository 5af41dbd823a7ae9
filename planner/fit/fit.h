#ifndef STOWAGE_PLANNER_FIT_FIT_H_
#define STOWAGE_PLANNER_FIT_FIT_H_

// Makes a training step fit a budget, at the least cost that the optimizations allow:
//
//   given       the step as it is
//   choose      the optimizations, and how far each goes
//   micro-batches      the batch in micro-batches, one after the other
//   offload     states and forward values in the host's memory
//   recompute   forward values that die, and are made again
//   order       the nodes in an order that needs less
//   fuse        several nodes run as one, where the device can
//   prefetch    what lies on the host reloaded early, where the budget leaves room
//   validate    the plan judged by other code than made it
//
// StepFitter::Fit in planner/fit/fit.cc reads as this list does. Whoever builds
// steps hands in a StepBuilder; a graph by itself is a step of one micro-batch.
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
  /// Its budget is not looked at. Where its weight layout has states, no optimization moves any:
  /// those on the host there are on the host, the others are not, as a step over an arena
  /// that another has planned must have them (else WeightLayout::WithoutStates). Likewise
  /// params, unless the layout is of WithoutStates.
  PlanOptions plan = {};
  MemoryOptimizations optimizations = {};
  /// What optimizations are priced in; empty: operations.
  CostFn cost = {};
  /// Of a byte copied between arena and host, in the unit of `cost`; absent:
  /// kOffloadFlopsPerByte, or kDiskFlopsPerByte if `optimizations` offload to disk.
  std::optional<double> cost_per_byte = std::nullopt;
  double CostPerByte() const {
    const bool on_disk = optimizations.offload == OffloadChoice::kDisk;
    return cost_per_byte.value_or(on_disk ? kDiskFlopsPerByte
                                          : kOffloadFlopsPerByte);
  }
  /// How long to search, as a share of the usual (about two seconds for what runs
  /// again in a step of a thousand nodes). Counted in work, not in time.
  double effort = 1;
  /// Called with every choice that is looked at, from several threads at once, for
  /// those who show how far planning is. What is planned does not depend on it.
  std::function<void()> on_choice = {};
};

class StepFitter {
 public:
  /// The backend of `options` must outlive this.
  StepFitter(StepBuilder build, FitOptions options);
  StepFitter(StepFitter&&) noexcept;
  StepFitter& operator=(StepFitter&&) noexcept;
  ~StepFitter();

  /// The cheapest step found that fits `budget`; without one, the fewest micro-batches
  /// and nothing moved. Micro-batches that the builder refuses with kUnsupported, as those
  /// that would change the loss, are not tried where it takes fewer. A larger budget never
  /// costs more, nor do more memory optimizations.
  /// Errors: kBudgetTooSmall, which names the budget, the need, the peak, the
  /// largest live buffers and the smallest budgets that work; kNotFound and
  /// kInvalidArgument for names that are no forward value's; the builder's and
  /// PlanMemory's. Deterministic.
  Result<FittedStep> Fit(std::optional<Bytes> budget);

  /// The step of fewest micro-batches as it is, whatever the budget.
  Result<FittedStep> AsGiven();

  /// The smallest budget that Fit does not refuse with these optimizations: those of the
  /// options, or others, whose names of values are not looked at.
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

  // The step with logits by the tiles of a level: kTileParts of it, 0 as it is.
  struct TileLevel {
    std::unique_ptr<fit::Grid> grid;
    int64_t rows = 0;  // of logits at a time
    double cost = 0;   // beyond the step as it is
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

// How a graph becomes a program, one way for all: training steps, evaluation, generation,
// the graph of a file.
//
//   epilogues   what follows a product is done by it, where the device can
//   optimizations      of a training step alone (planner/fit/fit.h)
//   plan        a place for every byte (planner/plan_memory.h)
//   fuse        several nodes run as one, where that needs no larger arena
//
// A step takes it by StepFitter, and what has no optimizations by PlanProgram, which plans what
// a StepFitter without optimizations would. PlanMemory alone plans a graph as it stands.
//
//   PlanOptions options{.weights = WeightLayout::FromForward(step, *step_plan),
//                       .device = cpu->Needs()};
//   Result<PlannedGraph> eval = PlanProgram(model, options);
//   Session::Create({{"train", step, *step_plan}, {"eval", eval->graph, eval->plan}},
//                   *cpu);

/// A graph to run, and where every byte of it lies.
struct PlannedGraph {
  Graph graph;
  Plan plan;  // for `graph`
};

/// `graph` with what `options.device` does in one node made one node (docs/explanation/fusion.md),
/// and its plan. Inputs, params, states, caches and outputs keep their names, types and
/// order; what lies between may be gone. Which epilogues there are does not depend on the
/// plan, and what else is fused shows in no bit: so a graph computes the same in every
/// budget and layout. Errors: those of PlanMemory; a budget is held against the fused
/// graph. Deterministic.
Result<PlannedGraph> PlanProgram(const Graph& graph,
                                 const PlanOptions& options = {});

}  // namespace stowage

#endif  // STOWAGE_PLANNER_FIT_FIT_H_
