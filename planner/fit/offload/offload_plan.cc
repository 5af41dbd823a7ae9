#include "planner/fit/offload/offload_plan.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/prefetch/prefetch.h"

namespace stowage::fit {
namespace {

constexpr int kHalves = 2;
constexpr size_t kStateSteps = 16;  // of a frontier, from no state to all

size_t CountStates(std::span<const Offloadable> all) {
  return static_cast<size_t>(
      std::ranges::count_if(all, &Offloadable::is_state));
}

// How many of the first have so many halves of all bytes.
size_t CountHalves(std::span<const Offloadable> all, int halves) {
  Bytes sum = 0, part = 0;
  for (const Offloadable& o : all) sum += o.bytes;
  size_t count = 0;
  while (count < all.size() && kHalves * part < halves * sum) {
    part += all[count++].bytes;
  }
  return count;
}

double CostOf(const MicroBatchedPlan& plan) {
  return plan.cost + plan.made.extra_cost;
}

// In some number of pieces, without recomputation.
Result<bool> FitsAsItIs(MicroBatchPlanner& planner, Bytes budget) {
  STOWAGE_ASSIGN_OR_RETURN(
      const std::optional<Bytes> smallest,
      planner.SmallestBudgetWithin(budget, Recompute::kNone));
  return smallest.has_value();
}

}  // namespace

std::string_view OffloadName(OffloadChoice choice) {
  switch (choice) {
    case OffloadChoice::kNone:
      return "none";
    case OffloadChoice::kAuto:
      return "auto";
  }
  STOWAGE_CHECK(false);
}

Result<OffloadChoice> ParseOffload(std::string_view name) {
  for (const OffloadChoice choice :
       {OffloadChoice::kNone, OffloadChoice::kAuto}) {
    if (name == OffloadName(choice)) return choice;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[offload] there is no choice ", Quoted(name),
                      "; expected none or auto")};
}

PieceBuilder OfGraph(Graph graph) {
  return [graph = std::move(graph)](int64_t, Sampling) -> Result<PiecedStep> {
    return PiecedStep{.graph = graph};
  };
}

OffloadPlanner::OffloadPlanner(std::vector<int64_t> pieces, PieceBuilder build,
                               const PlanOptions& options,
                               OffloadOptions offload)
    : pieces_(std::move(pieces)),
      build_(std::move(build)),
      options_(options),
      offload_(std::move(offload)) {
  if (options_.weights == nullptr) return;
  params_ = options_.weights->WithoutStates();
  options_.weights = &*params_;
}

Result<PiecedStep> OffloadPlanner::Build(int64_t pieces, Sampling sampling,
                                         Share share) const {
  STOWAGE_ASSIGN_OR_RETURN(PiecedStep step, build_(pieces, sampling));
  if (share == Share{}) return step;
  std::vector<Offloadable> moved = FindOffloadable(step.graph);
  const size_t states = CountStates(moved);
  const int halves = pieces > 1 && share.halves > 0 ? kHalves : share.halves;
  moved.resize(states + CountHalves(std::span(moved).subspan(states), halves));
  const size_t kept = states - std::min(share.states, states);
  moved.erase(moved.begin() + static_cast<std::ptrdiff_t>(states - kept),
              moved.begin() + static_cast<std::ptrdiff_t>(states));
  STOWAGE_ASSIGN_OR_RETURN(step.graph, Offload(step.graph, moved, step.begins));
  return step;
}

// Of nodes, copies included.
CostFn OffloadPlanner::Cost() const {
  return [cost = offload_.recompute.cost,
          per_byte = offload_.cost_per_byte](const Graph& graph) {
    std::vector<double> costs = cost ? cost(graph) : FlopsOfNodes(graph);
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      costs[static_cast<size_t>(id)] +=
          per_byte * static_cast<double>(BytesCopied(graph, graph.node(id)));
    }
    return costs;
  };
}

std::unique_ptr<MicroBatchPlanner> OffloadPlanner::PlannerOf(
    Share share) const {
  RecomputeOptions recompute = offload_.recompute;
  recompute.cost = Cost();
  return std::make_unique<MicroBatchPlanner>(
      pieces_,
      [this, share](int64_t pieces, Sampling sampling) {
        return Build(pieces, sampling, share);
      },
      options_, std::move(recompute));
}

Status OffloadPlanner::Prepare() {
  if (!levels_.empty()) return {};
  STOWAGE_ASSIGN_OR_RETURN(const PiecedStep step,
                           build_(pieces_.front(), Sampling::kOneOfAKind));
  const std::vector<Offloadable> all = FindOffloadable(step.graph);
  const size_t states = CountStates(all);
  const auto of_states = std::span(all).first(states);
  for (const Offloadable& state : of_states) states_.push_back(state.bytes);
  std::vector<Share> shares = {{},
                               {.states = CountHalves(of_states, 1)},
                               {.states = states},
                               {.states = states, .halves = 1},
                               {.states = states, .halves = 2}};
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
  for (const Share share : shares) levels_.push_back({share, PlannerOf(share)});
  return {};
}

std::span<const OffloadPlanner::Level> OffloadPlanner::Allowed(
    OffloadChoice offload) const {
  return std::span(levels_).first(
      offload == OffloadChoice::kNone ? 1 : levels_.size());
}

// Nothing where none fits.
Result<std::optional<MicroBatchedPlan>> OffloadPlanner::FitLevel(
    MicroBatchPlanner& planner, Bytes budget) const {
  if (offload_.recompute.recompute == Recompute::kNone) {
    STOWAGE_ASSIGN_OR_RETURN(const bool fits, FitsAsItIs(planner, budget));
    if (!fits) return std::optional<MicroBatchedPlan>();
  }
  Result<MicroBatchedPlan> plan = planner.PlanFor(budget);
  if (plan.ok()) return std::optional(*std::move(plan));
  if (plan.error().code != ErrorCode::kBudgetTooSmall) return plan.error();
  return std::optional<MicroBatchedPlan>();
}

// As few states moved as do without recomputation.
Result<std::optional<MicroBatchedPlan>> OffloadPlanner::FitByStates(
    Bytes budget) const {
  size_t least = 0, most = 0;  // too few; enough
  for (const Level& level : levels_) {
    if (level.share.halves > 0) break;
    STOWAGE_ASSIGN_OR_RETURN(const bool is_enough,
                             FitsAsItIs(*level.planner, budget));
    if (is_enough) {
      most = level.share.states;
      break;
    }
    least = level.share.states;
  }
  if (most == 0) return std::optional<MicroBatchedPlan>();
  while (most - least > 1) {
    const size_t middle = least + (most - least) / 2;
    STOWAGE_ASSIGN_OR_RETURN(
        const bool is_enough,
        FitsAsItIs(*PlannerOf({.states = middle}), budget));
    (is_enough ? most : least) = middle;
  }
  return FitLevel(*PlannerOf({.states = most}), budget);
}

Result<MicroBatchedPlan> OffloadPlanner::PlanFor(std::optional<Bytes> budget) {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  if (!budget || offload_.offload == OffloadChoice::kNone) {
    return levels_.front().planner->PlanFor(budget);
  }
  STOWAGE_ASSIGN_OR_RETURN(MicroBatchedPlan plan, Cheapest(*budget));
  if (plan.made.plan.host_bytes() == 0) return plan;
  STOWAGE_ASSIGN_OR_RETURN(Prefetched early,
                           Prefetch(plan.made.graph, plan.made.plan, *budget,
                                    Cost()(plan.made.graph), options_));
  plan.made.graph = std::move(early.graph);
  plan.made.plan = std::move(early.plan);
  return plan;
}

Result<MicroBatchedPlan> OffloadPlanner::Cheapest(Bytes budget) {
  MicroBatchPlanner& without = *levels_.front().planner;
  std::optional<MicroBatchedPlan> best;
  const auto keep = [&](std::optional<MicroBatchedPlan> plan) {
    if (plan && (!best || CostOf(*plan) < CostOf(*best)))
      best = std::move(plan);
  };
  STOWAGE_ASSIGN_OR_RETURN(auto unmoved, FitLevel(without, budget));
  keep(std::move(unmoved));
  STOWAGE_ASSIGN_OR_RETURN(const MicroBatchedPlan as_given,
                           without.PlanAsGiven());
  if (!best || CostOf(*best) > as_given.cost) {
    STOWAGE_ASSIGN_OR_RETURN(auto by_states, FitByStates(budget));
    keep(std::move(by_states));
    for (const Level& level : std::span(levels_).subspan(1)) {
      // A step of which this much is moved costs at least so much.
      Bytes bytes = 0;
      for (size_t i = 0; i < level.share.states; ++i) bytes += states_[i];
      const double least = as_given.cost + 2 * offload_.cost_per_byte *
                                               static_cast<double>(bytes);
      if (best && least >= CostOf(*best)) break;
      STOWAGE_ASSIGN_OR_RETURN(auto both, FitLevel(*level.planner, budget));
      keep(std::move(both));
    }
  }
  if (!best) return Refusal(budget);
  return *std::move(best);
}

Result<MicroBatchedPlan> OffloadPlanner::PlanAsGiven() {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  return levels_.front().planner->PlanAsGiven();
}

Result<Bytes> OffloadPlanner::SmallestBudget(OffloadChoice offload,
                                             Recompute recompute) {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  // The more is moved, the less is needed, mostly.
  std::optional<Bytes> smallest;
  const std::span<const Level> allowed = Allowed(offload);
  for (auto level = allowed.rbegin(); level != allowed.rend(); ++level) {
    STOWAGE_ASSIGN_OR_RETURN(
        const std::optional<Bytes> bytes,
        level->planner->SmallestBudgetWithin(
            smallest ? *smallest - 1 : kNoLimit, recompute));
    if (bytes) smallest = bytes;
  }
  return *smallest;
}

Result<std::vector<OffloadedPoint>> OffloadPlanner::Frontier() {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  STOWAGE_ASSIGN_OR_RETURN(const MicroBatchedPlan as_given, PlanAsGiven());
  struct Candidate {
    Share share;
    MicroBatchedPoint bargain;
  };
  std::vector<Candidate> all;
  const auto allowed = Allowed(offload_.offload);
  for (const Level& level : allowed) {
    STOWAGE_ASSIGN_OR_RETURN(const MicroBatchedPlan moved,
                             level.planner->PlanAsGiven());
    STOWAGE_ASSIGN_OR_RETURN(std::vector<MicroBatchedPoint> bargains,
                             level.planner->Frontier());
    for (MicroBatchedPoint& bargain : bargains) {
      bargain.point.extra_cost += moved.cost - as_given.cost;
      all.push_back({level.share, std::move(bargain)});
    }
  }
  // States alone, in even steps.
  const size_t steps =
      allowed.size() > 1 ? std::min(kStateSteps, states_.size()) : 0;
  for (size_t k = 1; k < steps; ++k) {
    const Share share = {.states = states_.size() * k / steps};
    STOWAGE_ASSIGN_OR_RETURN(const MicroBatchedPlan moved,
                             PlannerOf(share)->PlanAsGiven());
    all.push_back({share,
                   {.pieces = moved.pieces,
                    .point = {.arena = moved.made.plan.arena_bytes(),
                              .extra_cost = moved.cost - as_given.cost}}});
  }
  std::ranges::stable_sort(all, {}, [](const Candidate& each) {
    const FrontierPoint& point = each.bargain.point;
    return std::pair(point.extra_cost, point.arena);
  });
  std::vector<OffloadedPoint> kept;
  std::map<std::tuple<size_t, int, int64_t>, HostUse> uses;  // of whole steps
  for (Candidate& each : all) {
    auto& [pieces, point] = each.bargain;
    if (!kept.empty() && point.arena >= kept.back().point.arena) continue;
    const auto [use, is_new] =
        uses.try_emplace({each.share.states, each.share.halves, pieces});
    if (is_new) {
      STOWAGE_ASSIGN_OR_RETURN(const PiecedStep step,
                               Build(pieces, Sampling::kAll, each.share));
      use->second = FindHostUse(step.graph);
    }
    kept.push_back({pieces, std::move(point), use->second});
  }
  return kept;
}

Error OffloadPlanner::Refusal(Bytes budget) {
  const Result<Bytes> smallest =
      SmallestBudget(OffloadChoice::kAuto, offload_.recompute.recompute);
  if (!smallest.ok()) return smallest.error();
  const Result<MicroBatchedPlan> refused =
      levels_.front().planner->PlanFor(budget);
  STOWAGE_CHECK(!refused.ok());
  Error error = refused.error();
  error.message += StrCat(", or ", FormatBytes(*smallest), " (", *smallest,
                          " bytes) with offload");
  return error;
}

}  // namespace stowage::fit
