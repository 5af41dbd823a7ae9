#include "planner/fit/recompute/recompute.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/layout.h"
#include "planner/fit/recompute/exact.h"
#include "planner/fit/recompute/search.h"

namespace stowage::fit {
namespace {

constexpr int kBoundTimes = 24;      // at which the operations are bounded
constexpr size_t kFewBuffers = 256;  // so few are packed by search if need be
constexpr double kCostRounding = 1e-9;  // of the same costs summed otherwise

// Marks the named values, or the roots of named views.
Status Mark(const Graph& graph, const Simulation& simulation,
            const std::vector<std::string>& names, std::string_view what,
            std::vector<uint8_t>* marks) {
  marks->assign(Index(graph.num_values()), 0);
  for (const std::string& name : names) {
    const std::optional<ValueId> id = graph.Find(name);
    if (!id) {
      return Error{
          ErrorCode::kNotFound,
          StrCat("[recompute] graph ", Quoted(graph.name()), " has no value ",
                 Quoted(name), " to be always ", what)};
    }
    const ValueId root = simulation.root(*id);
    if (std::ranges::count(simulation.candidates(), root) == 0) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[recompute] ", Quoted(name), " cannot be always ", what,
                 ": it is no result of the forward pass, or an "
                 "output; expected a value that may be dropped")};
    }
    (*marks)[Index(root)] = 1;
  }
  return {};
}

}  // namespace

std::vector<RecomputedNode> ExplainRun(const Graph& graph,
                                       const Simulation& simulation) {
  const auto items = simulation.items();
  const auto is_freed = [&](ValueId id) {  // or a gradient
    return simulation.is_saved(id) ||
           graph.node(graph.value(id).producer).phase != Phase::kForward;
  };
  const auto freed = [&](NodeId n) {
    Bytes sum = 0;
    for (const ValueId id : graph.node(n).results) {
      if (is_freed(id)) sum += graph.value(id).type.bytes();
    }
    return sum;
  };
  std::map<int32_t, NodeId> for_whom;  // by instance
  std::map<NodeId, RecomputedNode> by_node;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (!item->again) continue;
    const Node& node = graph.node(item->node);
    NodeId whom = item->node;
    if (freed(item->node) == 0) {
      for (size_t r = 0; r < node.results.size(); ++r) {
        const auto entry =
            for_whom.find(item->first_result + static_cast<int32_t>(r));
        if (entry != for_whom.end()) whom = entry->second;
      }
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      for_whom[simulation.operands()[Index(item->operands) + i]] = whom;
    }
    if (simulation.is_view(item->node) || node.op == OpKind::kReload) continue;
    RecomputedNode& recomputed = by_node[whom];
    recomputed.flops += NodeFlops(graph, node);
    if (whom == item->node) ++recomputed.times;
  }
  std::vector<RecomputedNode> all;
  for (auto& [n, recomputed] : by_node) {
    const std::vector<ValueId>& results = graph.node(n).results;
    const auto dropped = std::ranges::find_if(results, is_freed);
    recomputed.name =
        graph.value(dropped == results.end() ? results[0] : *dropped).name;
    recomputed.freed = freed(n);
    all.push_back(std::move(recomputed));
  }
  std::ranges::stable_sort(
      all, [](const RecomputedNode& a, const RecomputedNode& b) {
        return a.freed > b.freed;
      });
  return all;
}

RecomputeChoices::RecomputeChoices(const Graph& graph, PlanOptions options,
                                   RecomputeOptions recompute)
    : graph_(graph),
      options_(std::move(options)),
      recompute_(std::move(recompute)) {
  options_.budget.reset();
}

Simulation& RecomputeChoices::GetSimulation() {
  if (!simulation_) {
    simulation_.emplace(graph_,
                        SimulationOptions{.alignment = options_.alignment,
                                          .in_place = options_.in_place,
                                          .workspace = NodeWorkspace(options_),
                                          .cost = recompute_.cost});
  }
  return *simulation_;
}

Status RecomputeChoices::Prepare() {
  if (given_) return {};
  STOWAGE_ASSIGN_OR_RETURN(Plan given, PlanMemory(graph_, options_));
  GetSimulation();
  STOWAGE_RETURN_IF_ERROR(Mark(graph_, *simulation_, recompute_.always_kept,
                               "kept", &always_kept_));
  STOWAGE_RETURN_IF_ERROR(Mark(graph_, *simulation_,
                               recompute_.always_recomputed, "recomputed",
                               &always_recomputed_));
  for (const ValueId id : simulation_->candidates()) {
    if (!always_kept_[Index(id)] || !always_recomputed_[Index(id)]) continue;
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[recompute] ", Quoted(graph_.value(id).name),
                        " is to be always kept and always recomputed; name it "
                        "once")};
  }
  reserved_ = given.arena_bytes() - given.regions.span();
  given_ = std::move(given);
  return {};
}

Result<Plan> RecomputeChoices::PlanAsGiven() {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  return *given_;
}

Result<std::span<RecomputeChoice>> RecomputeChoices::All() {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  if (choices_.empty()) {
    std::vector<FoundScript> found =
        SearchRecompute(graph_, *simulation_,
                        {.always_kept = always_kept_,
                         .always_recomputed = always_recomputed_,
                         .gradients = recompute_.gradients,
                         .effort = recompute_.effort,
                         .on_choice = recompute_.on_choice});
    for (FoundScript& each : found) {
      choices_.push_back({.least_arena = reserved_ + each.peak,
                          .cost = each.cost,
                          .script = std::move(each.script)});
    }
  }
  if (choices_.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "[recompute] what is to be always recomputed would read "
                 "params that have been updated by then; name less"};
  }
  return std::span(choices_);
}

// Full moments, spread over the step, at which bytes are most expensive.
Status RecomputeChoices::FindFullTimes() {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  if (bound_) return {};
  bound_.emplace(graph_, *simulation_);
  if (!simulation_->Run(simulation_->AsGiven())) return {};
  for (const NodeId time : FullestTimes(*simulation_, kBoundTimes)) {
    full_times_.push_back({.time = time, .forced = bound_->Forced(time)});
  }
  return {};
}

const std::vector<Tradeoff>& RecomputeChoices::TradeoffsOf(
    FullTime& time) const {
  if (time.tradeoffs.empty()) time.tradeoffs = bound_->Tradeoffs(time.time);
  return time.tradeoffs;
}

Status RecomputeChoices::Bound() {
  STOWAGE_RETURN_IF_ERROR(FindFullTimes());
  for (FullTime& time : full_times_) TradeoffsOf(time);
  return {};
}

Result<double> RecomputeChoices::LeastExtraCost(Bytes budget, double enough) {
  STOWAGE_RETURN_IF_ERROR(FindFullTimes());
  double least = 0;
  if (budget - reserved_ < bound_->MostForced(/*gradients=*/true)) {
    least = std::numeric_limits<double>::infinity();
  }
  for (FullTime& time : full_times_) {
    if (least >= enough) break;
    least = std::max(
        least, LeastCost(TradeoffsOf(time), budget - reserved_ - time.forced));
  }
  return least * (1 - kCostRounding);
}

Result<Bytes> RecomputeChoices::LeastArena() {
  STOWAGE_RETURN_IF_ERROR(FindFullTimes());
  if (least_arena_) return *least_arena_;
  // Gradients run again in small steps only.
  Bytes least = bound_->MostForced(recompute_.gradients &&
                                   IsSmallStep(graph_, *simulation_));
  for (const FullTime& time : full_times_) {
    least = std::max(least, time.forced + bound_->LeastStored(time.time));
  }
  return *(least_arena_ = reserved_ + least);
}

Result<RecomputedGraph> RecomputeChoices::Make(const Script& script) {
  RecomputedGraph made;
  if (script.empty()) {
    STOWAGE_RETURN_IF_ERROR(Prepare());
    made.graph = graph_;
    made.plan = *given_;
    return made;
  }
  if (!GetSimulation().Run(script)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[recompute] graph ", Quoted(graph_.name()),
                        " cannot run again what is asked for: a node would "
                        "read what is not there, or a param that has been "
                        "updated by then")};
  }
  made.nodes_again = simulation_->nodes_again();
  STOWAGE_ASSIGN_OR_RETURN(made.graph, Rewrite(graph_, *simulation_));
  STOWAGE_ASSIGN_OR_RETURN(made.plan, PlanMemory(made.graph, options_));
  if (!made.plan.optimal && options_.packer == Packer::kGreedy &&
      made.plan.buffers.size() <= kFewBuffers) {
    PlanOptions thorough = options_;
    thorough.packer = Packer::kBest;
    STOWAGE_ASSIGN_OR_RETURN(made.plan, PlanMemory(made.graph, thorough));
  }
  for (const Simulation::Item& item : simulation_->items()) {
    if (item.again) {
      made.flops_again += NodeFlops(graph_, graph_.node(item.node));
    }
  }
  made.extra_cost = simulation_->extra_cost();
  made.recomputed = ExplainRun(graph_, *simulation_);
  return made;
}

}  // namespace stowage::fit
