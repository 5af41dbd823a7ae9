#include "planner/offload_plan.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/strings.h"

namespace stowage {
namespace {

Bytes Sum(std::span<const Offloadable> moved) {
  Bytes sum = 0;
  for (const Offloadable& m : moved) sum += m.bytes;
  return sum;
}

}  // namespace

Result<OffloadChoice> ParseOffload(std::string_view name) {
  if (name == "none") return OffloadChoice::kNone;
  if (name == "auto") return OffloadChoice::kAuto;
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[offload] there is no choice ", Quoted(name),
                      "; expected none or auto")};
}

OffloadPlanner::OffloadPlanner(const Graph& graph, const PlanOptions& options,
                               OffloadOptions offload)
    : graph_(graph), options_(options), offload_(std::move(offload)) {
  options_.budget.reset();
  if (options_.weights != nullptr) {
    params_ = options_.weights->WithoutStates();
    options_.weights = &*params_;
  }
}

Result<std::unique_ptr<OffloadPlanner::Level>> OffloadPlanner::MakeLevel(
    std::vector<Offloadable> moved) {
  auto level = std::make_unique<Level>();
  level->graph = graph_;
  if (!moved.empty()) {
    STOWAGE_ASSIGN_OR_RETURN(level->graph, Offload(graph_, moved));
  }
  level->moved = std::move(moved);
  level->planner.emplace(level->graph, options_, offload_.recompute);
  return level;
}

double OffloadPlanner::CostOf(const std::vector<Offloadable>& moved) const {
  return 2 * offload_.cost_per_byte * static_cast<double>(Sum(moved));
}

Status OffloadPlanner::Prepare() {
  if (!levels_.empty()) return {};
  all_ = FindOffloadable(graph_);
  for (const size_t count : OffloadLevels(all_)) {
    const auto end = all_.begin() + static_cast<std::ptrdiff_t>(count);
    STOWAGE_ASSIGN_OR_RETURN(auto level, MakeLevel({all_.begin(), end}));
    levels_.push_back(std::move(level));
  }
  return {};
}

// The cheapest plan of a level that fits; nothing where none does.
Result<std::optional<OffloadedPlan>> OffloadPlanner::FitLevel(Level& level,
                                                              Bytes budget) {
  STOWAGE_ASSIGN_OR_RETURN(const Bytes as_is,
                           level.planner->SmallestBudget(Recompute::kNone));
  if (as_is > budget && offload_.recompute.recompute == Recompute::kNone) {
    return std::optional<OffloadedPlan>();
  }
  Result<RecomputedPlan> made = level.planner->PlanFor(budget);
  if (!made.ok() && made.error().code == ErrorCode::kBudgetTooSmall) {
    return std::optional<OffloadedPlan>();
  }
  if (!made.ok()) return made.error();
  const double cost = made->extra_cost + CostOf(level.moved);
  return std::optional(
      OffloadedPlan{*std::move(made), level.moved, 2 * Sum(level.moved), cost});
}

Result<bool> OffloadPlanner::Fits(const std::vector<Offloadable>& moved,
                                  Bytes budget) {
  STOWAGE_ASSIGN_OR_RETURN(const Graph graph, Offload(graph_, moved));
  STOWAGE_ASSIGN_OR_RETURN(const Plan plan, PlanMemory(graph, options_));
  return plan.arena_bytes() <= budget;
}

// As little moved as does without recomputation: the first that have to be, of
// which the last is replaced by the smallest that will do.
Result<std::optional<OffloadedPlan>> OffloadPlanner::FitByMovingAlone(
    Bytes budget) {
  size_t least = 0, most = 0;  // of all_: too few; enough
  for (const auto& level : levels_) {
    STOWAGE_ASSIGN_OR_RETURN(const Bytes arena,
                             level->planner->SmallestBudget(Recompute::kNone));
    if (arena <= budget) {
      most = level->moved.size();
      break;
    }
    least = level->moved.size();
  }
  if (most == 0) return std::optional<OffloadedPlan>();
  while (most - least > 1) {
    const size_t middle = least + (most - least) / 2;
    const std::vector<Offloadable> first(
        all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(middle));
    STOWAGE_ASSIGN_OR_RETURN(const bool fits, Fits(first, budget));
    (fits ? most : least) = middle;
  }
  std::vector<Offloadable> moved(
      all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(most));
  // Only states are in falling order of size.
  size_t last = most - 1, beyond = last;
  while (beyond < all_.size() && all_[beyond].is_state()) ++beyond;
  while (beyond - last > 1) {
    const size_t middle = last + (beyond - last) / 2;
    moved.back() = all_[middle];
    STOWAGE_ASSIGN_OR_RETURN(const bool fits, Fits(moved, budget));
    (fits ? last : beyond) = middle;
  }
  moved.back() = all_[last];
  STOWAGE_ASSIGN_OR_RETURN(const auto level, MakeLevel(std::move(moved)));
  return FitLevel(*level, budget);
}

Result<OffloadedPlan> OffloadPlanner::PlanFor(std::optional<Bytes> budget) {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  if (!budget) {
    STOWAGE_ASSIGN_OR_RETURN(RecomputedPlan made,
                             levels_.front()->planner->PlanFor(budget));
    const double cost = made.extra_cost;
    return OffloadedPlan{std::move(made), {}, 0, cost};
  }
  std::optional<OffloadedPlan> best;
  const auto keep = [&](std::optional<OffloadedPlan> plan) {
    if (plan && (!best || plan->cost < best->cost)) best = std::move(plan);
  };
  STOWAGE_ASSIGN_OR_RETURN(auto as_is, FitLevel(*levels_.front(), *budget));
  keep(std::move(as_is));
  if (!best || best->cost > 0) {
    STOWAGE_ASSIGN_OR_RETURN(auto moving, FitByMovingAlone(*budget));
    keep(std::move(moving));
  }
  for (const auto& level : levels_) {
    if (level->moved.empty()) continue;
    if (best && CostOf(level->moved) >= best->cost) break;
    STOWAGE_ASSIGN_OR_RETURN(auto both, FitLevel(*level, *budget));
    keep(std::move(both));
  }
  if (!best) return Refusal(*budget);
  return *std::move(best);
}

Result<Bytes> OffloadPlanner::SmallestBudget(Recompute recompute) {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  std::optional<Bytes> smallest;
  for (const auto& level : levels_) {
    STOWAGE_ASSIGN_OR_RETURN(const Bytes bytes,
                             level->planner->SmallestBudget(recompute));
    smallest = std::min(smallest.value_or(bytes), bytes);
  }
  return *smallest;
}

Error OffloadPlanner::Refusal(Bytes budget) {
  if (const Status ready = Prepare(); !ready.ok()) return ready.error();
  const Result<RecomputedPlan> without =
      levels_.front()->planner->PlanFor(budget);
  const Result<Bytes> moved = SmallestBudget(Recompute::kNone);
  const Result<Bytes> both = SmallestBudget(Recompute::kAuto);
  if (!moved.ok()) return moved.error();
  if (!both.ok()) return both.error();
  Error refusal = without.error();
  refusal.message +=
      StrCat(", ", FormatBytes(*moved), " (", *moved, " bytes) with offload, ",
             FormatBytes(*both), " (", *both, " bytes) with both");
  return refusal;
}

}  // namespace stowage
