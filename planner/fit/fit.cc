#include "planner/fit/fit.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "planner/fit/epilogues/epilogues.h"
#include "planner/fit/fuse/fuse.h"
#include "planner/fit/grid.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/order/order.h"
#include "planner/fit/tiles/tiles.h"
#include "planner/validate_plan.h"

namespace stowage {

using fit::Grid;
using fit::kAnyCost;
using fit::kNoLimit;
using fit::PassClock;
using fit::Variant;

namespace {

// Relative, for sums of the same costs in another order.
constexpr double kRounding = 1e-9;
// For each body.
constexpr int64_t kOrderEffortInBody = fit::kOrderEffort / 10;

Variant::Options VariantOptionsOf(const FitOptions& options) {
  return {.plan = options.plan,
          .recompute = {.always_kept = options.optimizations.always_kept,
                        .always_recomputed =
                            options.optimizations.always_recomputed,
                        .cost = options.cost,
                        .effort = options.effort,
                        .on_choice = options.on_choice},
          .cost_per_byte = options.CostPerByte()};
}

// `build`, but refusing more micro-batches than can be planned.
StepBuilder OfNotTooMany(StepBuilder build) {
  return [build = std::move(build)](int64_t micro_batches,
                                    Sampling sampling) -> Result<SampledStep> {
    if (micro_batches > kMaxMicroBatches) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[micro-batches] ", micro_batches, " micro-batches; at most ",
                 kMaxMicroBatches, " are planned")};
    }
    return build(micro_batches, sampling);
  };
}

// "x", of the name "x/2" of a value in a micro-batch.
std::string WithoutMicroBatch(const std::string& name) {
  const size_t slash = name.rfind('/');
  const bool is_micro_batch =
      slash != std::string::npos && slash + 1 < name.size() &&
      name.find_first_not_of("0123456789", slash + 1) == std::string::npos;
  return is_micro_batch ? name.substr(0, slash) : name;
}

// `build` with epilogues. Micro-batches stay alike: a value named in one is named in all.
StepBuilder WithEpilogues(StepBuilder build, const FitOptions& options) {
  std::vector<std::string> named;
  for (const auto* names : {&options.optimizations.always_kept,
                            &options.optimizations.always_recomputed}) {
    for (const std::string& name : *names) {
      named.push_back(name);
      named.push_back(WithoutMicroBatch(name));
    }
  }
  return [build = std::move(build), named = std::move(named),
          fusions = options.plan.device.fusions](
             int64_t micro_batches, Sampling sampling) -> Result<SampledStep> {
    STOWAGE_ASSIGN_OR_RETURN(SampledStep step, build(micro_batches, sampling));
    const std::vector<std::string> in_micro_batches =
        fit::NamesInMicroBatches(step.graph, named, micro_batches);
    return fit::FormEpilogues(std::move(step), fusions, in_micro_batches);
  };
}

// `build` with the values on the host that the given layout has there.
StepBuilder WithGiven(StepBuilder build, const PlanOptions& options) {
  if (!options.weights) return build;
  return [build = std::move(build), layout = *options.weights](
             int64_t micro_batches, Sampling sampling) -> Result<SampledStep> {
    STOWAGE_ASSIGN_OR_RETURN(SampledStep step, build(micro_batches, sampling));
    STOWAGE_ASSIGN_OR_RETURN(step.graph,
                             fit::MoveGiven(step.graph, layout, step.begins));
    return step;
  };
}

MemoryOptimizations InOneMicroBatch(MemoryOptimizations optimizations) {
  optimizations.micro_batches = {1};
  return optimizations;
}

// Whether `a` is cheaper, or as cheap in an arena that is no larger.
bool IsNoWorse(const FittedStep& a, const FittedStep& b) {
  const double slack = kRounding * b.total_cost();
  if (a.total_cost() < b.total_cost() - slack) return true;
  return a.total_cost() <= b.total_cost() + slack &&
         a.plan.arena_bytes() <= b.plan.arena_bytes();
}

}  // namespace

// The numbers of micro-batches that the builder has refused, with its errors.
struct StepFitter::Refused {
  std::map<int64_t, Error> micro_batches;
};

// The step in a number of micro-batches, in the order that needs the least memory.
struct StepFitter::Ordered {
  Ordered(Bytes bound, StepBuilder build, Variant::Options options)
      : bound(bound), grid(std::move(build), std::move(options)) {}

  Bytes bound;  // no order takes a smaller arena
  Grid grid;
};

StepFitter::StepFitter(StepBuilder build, FitOptions options)
    : refused_(std::make_shared<Refused>()),
      build_(WithGiven(
          WithEpilogues(Noting(OfNotTooMany(std::move(build))), options),
          options.plan)),
      options_(std::move(options)) {
  STOWAGE_CHECK(!options_.optimizations.micro_batches.empty());
  options_.plan.budget.reset();
  grid_ = std::make_unique<Grid>(build_, VariantOptionsOf(options_));
}
StepFitter::StepFitter(StepFitter&&) noexcept = default;
StepFitter& StepFitter::operator=(StepFitter&&) noexcept = default;
StepFitter::~StepFitter() = default;

// The levels whose tiles are smaller than those of the level before.
Result<std::span<StepFitter::TileLevel>> StepFitter::TileLevels() {
  if (tile_levels_) return std::span(*tile_levels_);
  STOWAGE_ASSIGN_OR_RETURN(
      Variant* const given,
      grid_->Get(options_.optimizations.micro_batches.front(), {}));
  std::vector<TileLevel> levels;
  int64_t rows = 0;
  for (const int64_t parts : fit::kTileParts) {
    if (parts == 1) continue;
    STOWAGE_ASSIGN_OR_RETURN(const fit::Tiled tiled,
                             fit::TileLogits(given->sample(), parts));
    if (tiled.rows == rows) break;
    rows = tiled.rows;
    const StepBuilder build = [of = build_, parts](
                                  int64_t micro_batches,
                                  Sampling sampling) -> Result<SampledStep> {
      STOWAGE_ASSIGN_OR_RETURN(SampledStep step, of(micro_batches, sampling));
      STOWAGE_ASSIGN_OR_RETURN(fit::Tiled in_parts,
                               fit::TileLogits(step.graph, parts));
      step.graph = std::move(in_parts.graph);
      return step;
    };
    // Measured times include the extra traffic.
    const double cost =
        options_.cost
            ? 0
            : fit::kTileFlopsPerByte * static_cast<double>(tiled.extra_traffic);
    levels.push_back(
        {.grid = std::make_unique<Grid>(build, VariantOptionsOf(options_)),
         .rows = rows,
         .cost = cost});
  }
  return std::span(*(tile_levels_ = std::move(levels)));
}

StepBuilder StepFitter::Noting(StepBuilder build) const {
  return [build = std::move(build), refused = refused_](
             int64_t micro_batches, Sampling sampling) -> Result<SampledStep> {
    Result<SampledStep> step = build(micro_batches, sampling);
    if (!step.ok() && step.error().code == ErrorCode::kUnsupported) {
      refused->micro_batches.emplace(micro_batches, step.error());
    }
    return step;
  };
}

// Numbers of micro-batches that the builder refuses are tried only if there are no others. If
// the second number is refused, so are all larger ones.
template <typename T>
Result<T> StepFitter::WithoutRefused(std::vector<int64_t>& micro_batches,
                                     const std::function<Result<T>()>& run) {
  const auto is_refused = [&](int64_t n) {
    return refused_->micro_batches.contains(n);
  };
  while (true) {
    if (micro_batches.size() > 1 && is_refused(micro_batches[1])) {
      micro_batches.erase(micro_batches.begin() + 1, micro_batches.end());
    }
    if (!is_refused(micro_batches.front()))
      std::erase_if(micro_batches, is_refused);
    const size_t known = refused_->micro_batches.size();
    Result<T> result = run();
    if (result.ok() || micro_batches.size() == 1 ||
        refused_->micro_batches.size() == known ||
        result.error().code != ErrorCode::kUnsupported) {
      return result;
    }
  }
}

Result<FittedStep> StepFitter::Fit(std::optional<Bytes> budget) {
  return WithoutRefused<FittedStep>(options_.optimizations.micro_batches,
                                    [&] { return FitOnce(budget); });
}

// The pipeline.
Result<FittedStep> StepFitter::FitOnce(std::optional<Bytes> budget) {
  const Bytes most = budget.value_or(kNoLimit);
  std::vector<PassReport> passes;
  PassClock clock;

  STOWAGE_ASSIGN_OR_RETURN(
      Variant* const given,
      grid_->Get(options_.optimizations.micro_batches.front(), {}));
  passes.push_back({.name = "given",
                    .applied = true,
                    .changed = false,
                    .arena = given->arena(),
                    .seconds = clock.Lap()});

  // Micro-batches, offload and recomputation are chosen together, on samples, and then applied
  // to the whole step.
  Result<FittedStep> step = Choose(most);
  if (options_.optimizations.order == NodeOrder::kMemory) {
    step = TakeOrder(std::move(step), most);
  }
  if (!step.ok()) return step.error();
  const double of_choice = clock.Lap();
  double of_passes = 0;
  for (PassReport& pass : step->passes) of_passes += pass.seconds;
  passes.push_back(
      {.name = "choose",
       .applied = given->arena() > most,
       .changed = step->price.micro_batches > given->micro_batches() ||
                  step->price.host.values > 0 || step->price.tile_rows > 0 ||
                  step->price.recomputed_nodes > 0,
       .arena = given->arena(),
       .seconds = std::max(of_choice - of_passes, 0.0)});
  for (PassReport& pass : step->passes) passes.push_back(std::move(pass));

  STOWAGE_ASSIGN_OR_RETURN(const bool is_fused, FuseNodes(&*step));
  passes.push_back(
      {.name = "fuse",
       .applied = options_.plan.device.fusions.elementwise != nullptr,
       .changed = is_fused,
       .arena = step->plan.arena_bytes(),
       .seconds = clock.Lap()});

  STOWAGE_ASSIGN_OR_RETURN(const bool is_early, ReloadEarly(most, &*step));
  passes.push_back({.name = "prefetch",
                    .applied = budget && step->price.host.values > 0,
                    .changed = is_early,
                    .arena = step->plan.arena_bytes(),
                    .seconds = clock.Lap()});

  // Savings are relative to the unmodified step: recomputation and offload do not raise them.
  const Price& price = step->price;
  if (price.micro_batches > 1 || price.host.values > 0 ||
      price.recomputed_nodes > 0 || price.tile_rows > 0) {
    // Names of kept values may exist in some micro-batches only.
    const Result<Variant*> whole = grid_->Get(1, {});
    STOWAGE_ASSIGN_OR_RETURN(
        std::optional<FittedStep> as_given,
        (whole.ok() ? *whole : given)
            ->FitAsGiven(kNoLimit, Recompute::kNone, kAnyCost));
    if (as_given) {
      STOWAGE_RETURN_IF_ERROR(FuseNodes(&*as_given));
      step->plan.no_reuse = as_given->plan.no_reuse;
    }
  }

  const std::vector<std::string> violations =
      ValidatePlan(step->graph, step->plan);
  STOWAGE_CHECK(violations.empty());
  passes.push_back({.name = "validate",
                    .applied = true,
                    .changed = false,
                    .arena = step->plan.arena_bytes(),
                    .seconds = clock.Lap()});
  step->passes = std::move(passes);
  return step;
}

// The cheapest step that fits; without a budget, the fewest micro-batches without offload.
Result<FittedStep> StepFitter::Choose(Bytes budget) {
  STOWAGE_ASSIGN_OR_RETURN(std::optional<FittedStep> step,
                           grid_->Cheapest(budget, options_.optimizations));
  if (options_.optimizations.tiles == Tiles::kAuto) {
    STOWAGE_RETURN_IF_ERROR(TakeTiles(budget, &step));
  }
  if (!step) return Refusal(budget);
  STOWAGE_ASSIGN_OR_RETURN(Variant* const in_micro_batches,
                           grid_->Get(step->price.micro_batches, {}));
  for (PassReport& pass : step->passes) {
    if (pass.name == "micro_batches") pass.arena = in_micro_batches->arena();
  }
  return *std::move(step);
}

// Replaces `step` by the step with smaller tiles if that costs less. No step costs less than the
// one with nothing but tiles.
Status StepFitter::TakeTiles(Bytes budget, std::optional<FittedStep>* step) {
  STOWAGE_ASSIGN_OR_RETURN(
      Variant* const given,
      grid_->Get(options_.optimizations.micro_batches.front(), {}));
  if (given->arena() <= budget) return {};
  STOWAGE_ASSIGN_OR_RETURN(const std::span<TileLevel> levels, TileLevels());
  double least = *step ? (*step)->total_cost() : kAnyCost;
  for (TileLevel& level : levels) {
    if (given->cost() + level.cost >= least) break;
    STOWAGE_ASSIGN_OR_RETURN(
        std::optional<FittedStep> tiled,
        level.grid->Cheapest(budget, options_.optimizations,
                             least - level.cost));
    if (!tiled) continue;
    least = tiled->total_cost() + level.cost;
    tiled->price.tile_rows = level.rows;
    tiled->cost += level.cost;
    *step = std::move(tiled);
  }
  return {};
}

// The smallest budget with these optimizations in the given order, with the smallest tiles.
Result<Bytes> StepFitter::SmallestInOrder(
    const MemoryOptimizations& optimizations) {
  Grid* grid = grid_.get();
  if (optimizations.tiles != Tiles::kNone) {
    STOWAGE_ASSIGN_OR_RETURN(const std::span<TileLevel> levels, TileLevels());
    if (!levels.empty()) grid = levels.back().grid.get();
  }
  STOWAGE_ASSIGN_OR_RETURN(const Grid::Need need,
                           grid->Smallest(optimizations));
  return need.bytes;
}

Result<FittedStep> StepFitter::AsGiven() {
  STOWAGE_ASSIGN_OR_RETURN(
      Variant* const given,
      grid_->Get(options_.optimizations.micro_batches.front(), {}));
  STOWAGE_ASSIGN_OR_RETURN(
      std::optional<FittedStep> step,
      given->FitAsGiven(kNoLimit, Recompute::kNone, kAnyCost));
  STOWAGE_RETURN_IF_ERROR(FuseNodes(&*step));
  return *std::move(step);
}

// The step in this number of micro-batches, in the order that needs the least memory.
Result<StepFitter::Ordered*> StepFitter::InMemoryOrder(int64_t micro_batches) {
  std::unique_ptr<Ordered>& ordered = ordered_[micro_batches];
  if (ordered) return ordered.get();
  STOWAGE_ASSIGN_OR_RETURN(const SampledStep step,
                           build_(micro_batches, Sampling::kAll));
  STOWAGE_ASSIGN_OR_RETURN(
      const Graph graph,
      fit::OrderBodies(step.graph, options_.plan, kOrderEffortInBody));
  STOWAGE_ASSIGN_OR_RETURN(fit::OrderedPlan found,
                           fit::PlanInMemoryOrder(graph, options_.plan));
  Variant::Options options = VariantOptionsOf(options_);
  options.plan.packer = found.packer;
  for (auto* names :
       {&options.recompute.always_kept, &options.recompute.always_recomputed}) {
    *names = fit::NamesInMicroBatches(step.graph, *names, micro_batches);
  }
  ordered = std::make_unique<Ordered>(
      found.bound, OfGraph(std::move(found.graph)), std::move(options));
  return ordered.get();
}

// Replaces `step` by one in a better order if that costs no more. More micro-batches cost more in
// any order.
Result<FittedStep> StepFitter::TakeOrder(Result<FittedStep> step,
                                         Bytes budget) {
  if (!step.ok() && step.error().code != ErrorCode::kBudgetTooSmall) {
    return step;
  }
  PassClock clock;
  const double choosing =
      step.ok() ? step->total_cost() : std::numeric_limits<double>::infinity();
  bool changed = false;
  Bytes bound = 0;
  for (const int64_t micro_batches : options_.optimizations.micro_batches) {
    STOWAGE_ASSIGN_OR_RETURN(Variant* const as_given,
                             grid_->Get(micro_batches, {}));
    if (as_given->cost() > choosing * (1 + kRounding)) break;
    STOWAGE_ASSIGN_OR_RETURN(Ordered* const ordered,
                             InMemoryOrder(micro_batches));
    bound = ordered->bound;
    STOWAGE_ASSIGN_OR_RETURN(
        std::optional<FittedStep> in_order,
        ordered->grid.Cheapest(budget,
                               InOneMicroBatch(options_.optimizations)));
    if (!in_order || (step.ok() && !IsNoWorse(*in_order, *step))) continue;
    in_order->price.micro_batches = micro_batches;
    in_order->plan.order = NodeOrderName(NodeOrder::kMemory);
    for (PassReport& pass : in_order->passes) {
      if (pass.name == "micro_batches") {
        pass.applied = pass.changed = micro_batches > 1;
        pass.arena = as_given->arena();
      }
    }
    step = *std::move(in_order);
    changed = true;
    break;
  }
  if (!step.ok()) return step;
  step->order_bound = bound;
  step->passes.push_back({.name = "order",
                          .applied = true,
                          .changed = changed,
                          .arena = step->plan.arena_bytes(),
                          .seconds = clock.Lap()});
  return step;
}

// Fuses nodes if that needs no larger arena. Returns whether any were fused.
Result<bool> StepFitter::FuseNodes(FittedStep* step) const {
  STOWAGE_ASSIGN_OR_RETURN(fit::Fused fused,
                           fit::Fuse(step->graph, step->plan, options_.plan));
  step->graph = std::move(fused.graph);
  step->plan = std::move(fused.plan);
  return fused.changed;
}

// Moves reloads up within the budget. Returns whether any were moved.
Result<bool> StepFitter::ReloadEarly(Bytes budget, FittedStep* step) const {
  if (step->price.host.values == 0 || budget == kNoLimit) return false;
  STOWAGE_ASSIGN_OR_RETURN(fit::Prefetched early,
                           fit::Prefetch(
                               step->graph, step->plan, budget,
                               [this](const Graph& graph) {
                                 return fit::CostsOfNodes(
                                     graph, options_.cost,
                                     options_.CostPerByte());
                               },
                               options_.plan));
  early.plan.order = step->plan.order;
  step->graph = std::move(early.graph);
  step->plan = std::move(early.plan);
  return early.moved > 0;
}

Result<Bytes> StepFitter::SmallestBudget() {
  return SmallestBudget(options_.optimizations);
}

Result<Bytes> StepFitter::SmallestBudget(
    const MemoryOptimizations& optimizations) {
  MemoryOptimizations possible = optimizations;
  return WithoutRefused<Bytes>(possible.micro_batches,
                               [&] { return SmallestOnce(possible); });
}

Result<Bytes> StepFitter::SmallestOnce(
    const MemoryOptimizations& optimizations) {
  STOWAGE_ASSIGN_OR_RETURN(Bytes smallest, SmallestInOrder(optimizations));
  if (optimizations.order == NodeOrder::kGiven) return smallest;
  for (const int64_t micro_batches : optimizations.micro_batches) {
    STOWAGE_ASSIGN_OR_RETURN(Ordered* const ordered,
                             InMemoryOrder(micro_batches));
    STOWAGE_ASSIGN_OR_RETURN(
        const Grid::Need in_order,
        ordered->grid.Smallest(InOneMicroBatch(optimizations)));
    smallest = std::min(smallest, in_order.bytes);
  }
  return smallest;
}

Result<std::vector<ParetoPoint>> StepFitter::Frontier() {
  return WithoutRefused<std::vector<ParetoPoint>>(
      options_.optimizations.micro_batches, [&] { return FrontierOnce(); });
}

// The Pareto points of `points` and of the step with the smallest tiles.
Result<std::vector<ParetoPoint>> StepFitter::WithTiles(
    std::vector<ParetoPoint> points) {
  STOWAGE_ASSIGN_OR_RETURN(const std::span<TileLevel> levels, TileLevels());
  if (levels.empty()) return points;
  const TileLevel& smallest = levels.back();
  STOWAGE_ASSIGN_OR_RETURN(std::vector<ParetoPoint> tiled,
                           smallest.grid->Frontier(options_.optimizations));
  for (ParetoPoint& point : tiled) {
    point.price.tile_rows = smallest.rows;
    point.price.extra_cost += smallest.cost;
    point.price.least_extra_cost += smallest.cost;
    points.push_back(std::move(point));
  }
  std::ranges::stable_sort(points, {}, [](const ParetoPoint& point) {
    return std::pair(point.price.extra_cost, point.arena);
  });
  std::vector<ParetoPoint> best;
  for (ParetoPoint& point : points) {
    if (!best.empty() && point.arena >= best.back().arena) continue;
    best.push_back(std::move(point));
  }
  return best;
}

Result<std::vector<ParetoPoint>> StepFitter::FrontierOnce() {
  if (options_.optimizations.order == NodeOrder::kGiven) {
    STOWAGE_ASSIGN_OR_RETURN(std::vector<ParetoPoint> points,
                             grid_->Frontier(options_.optimizations));
    if (options_.optimizations.tiles == Tiles::kNone) return points;
    return WithTiles(std::move(points));
  }
  const int64_t micro_batches = options_.optimizations.micro_batches.front();
  STOWAGE_ASSIGN_OR_RETURN(Ordered* const ordered,
                           InMemoryOrder(micro_batches));
  STOWAGE_ASSIGN_OR_RETURN(
      std::vector<ParetoPoint> points,
      ordered->grid.Frontier(InOneMicroBatch(options_.optimizations)));
  for (ParetoPoint& point : points) point.price.micro_batches = micro_batches;
  return points;
}

// The refusal of a budget: the need of the unmodified step, and the smallest budgets with
// recomputation alone and with the allowed optimizations.
Error StepFitter::Refusal(Bytes budget) {
  const MemoryOptimizations& allowed = options_.optimizations;
  STOWAGE_ASSIGN_OR_RETURN(Variant* const given,
                           grid_->Get(allowed.micro_batches.front(), {}));
  PlanOptions options = options_.plan;
  options.budget = budget;
  Error error;
  if (const Result<Plan> plan = PlanMemory(given->sample(), options);
      !plan.ok()) {
    error = plan.error();
  } else {
    STOWAGE_ASSIGN_OR_RETURN(const Bytes need, SmallestInOrder(allowed));
    return {ErrorCode::kBudgetTooSmall,
            StrCat("[plan] budget ", budget, " bytes is below the ", need,
                   " bytes that are needed ",
                   allowed.always_recomputed.empty()
                       ? "by the whole step"
                       : "when what is named is always recomputed; without "
                         "that it fits")};
  }
  Bytes smallest = given->arena();
  const auto add = [&](Bytes bytes, std::string_view with) {
    if (bytes >= smallest) return;
    smallest = bytes;
    error.message +=
        StrCat(", or ", FormatBytes(bytes), " (", bytes, " bytes) with ", with);
  };
  MemoryOptimizations near = allowed;
  near.tiles = Tiles::kNone;
  near.micro_batches = {given->micro_batches()};
  if (allowed.order != NodeOrder::kGiven) {
    near.recompute = Recompute::kNone;
    near.offload = OffloadChoice::kNone;
    STOWAGE_ASSIGN_OR_RETURN(const Bytes ordered, SmallestOnce(near));
    add(ordered, "nodes in another order");
  }
  near.recompute = Recompute::kAuto;
  near.offload = OffloadChoice::kNone;
  STOWAGE_ASSIGN_OR_RETURN(const Grid::Need recomputed, grid_->Smallest(near));
  add(recomputed.bytes, "recompute");
  const bool recomputes = allowed.recompute != Recompute::kNone;
  if (!recomputes) smallest = given->arena();
  const std::string_view and_recompute = recomputes ? "recompute and " : "";
  if (allowed.micro_batches.size() > 1) {
    near.micro_batches = allowed.micro_batches;
    near.recompute = allowed.recompute;
    STOWAGE_ASSIGN_OR_RETURN(const Grid::Need cut, grid_->Smallest(near));
    add(cut.bytes,
        StrCat(and_recompute, cut.variant->micro_batches(), " micro-batches"));
  } else if (!refused_->micro_batches.empty()) {
    error.message += StrCat(", the batch in one micro-batch, since ",
                            refused_->micro_batches.begin()->second.message);
  }
  if (allowed.offload != OffloadChoice::kNone) {
    near = allowed;
    near.tiles = Tiles::kNone;
    STOWAGE_ASSIGN_OR_RETURN(const Grid::Need moved, grid_->Smallest(near));
    const int64_t micro_batches = moved.variant->micro_batches();
    add(moved.bytes, micro_batches > given->micro_batches()
                         ? StrCat(recomputes ? "recompute, " : "",
                                  micro_batches, " micro-batches and offload")
                         : StrCat(and_recompute, "offload"));
  }
  if (allowed.tiles == Tiles::kNone) return error;
  STOWAGE_ASSIGN_OR_RETURN(const Bytes tiled, SmallestInOrder(allowed));
  add(tiled, "these and smaller tiles of logits");
  return error;
}

Result<PlannedGraph> PlanProgram(const Graph& graph,
                                 const PlanOptions& options) {
  PlanOptions unbounded = options;
  unbounded.budget.reset();
  STOWAGE_ASSIGN_OR_RETURN(
      const SampledStep formed,
      fit::FormEpilogues({.graph = graph}, options.device.fusions, {}));
  STOWAGE_ASSIGN_OR_RETURN(const Plan given,
                           PlanMemory(formed.graph, unbounded));
  STOWAGE_ASSIGN_OR_RETURN(fit::Fused fused,
                           fit::Fuse(formed.graph, given, unbounded));
  PlannedGraph program{std::move(fused.graph), std::move(fused.plan)};
  if (options.budget && program.plan.arena_bytes() > *options.budget) {
    // PlanMemory refuses, unless a packer with a deadline does better now.
    STOWAGE_ASSIGN_OR_RETURN(program.plan, PlanMemory(program.graph, options));
  }
  return program;
}

}  // namespace stowage
