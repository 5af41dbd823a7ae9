#include "planner/fit/recompute/recompute.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "base/strings.h"
#include "ir/layout.h"

namespace stowage::fit {
namespace {

constexpr Recompute kRecomputes[] = {Recompute::kNone, Recompute::kCheap,
                                     Recompute::kAuto};
constexpr int kBoundTimes = 24;      // at which the operations are bounded
constexpr size_t kFewBuffers = 256;  // so few are packed by search if need be

// Marks the named values, or the roots of named views.
Status Mark(const Graph& graph, const Rehearsal& rehearsal,
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
    const ValueId root = rehearsal.root(*id);
    if (std::ranges::count(rehearsal.candidates(), root) == 0) {
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

std::string_view RecomputeName(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "none";
    case Recompute::kCheap:
      return "cheap";
    case Recompute::kAuto:
      return "auto";
  }
  STOWAGE_CHECK(false);
}

Result<Recompute> ParseRecompute(std::string_view name) {
  for (const Recompute recompute : kRecomputes) {
    if (name == RecomputeName(recompute)) return recompute;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[recompute] there is no choice ", Quoted(name),
                      "; expected none, cheap or auto")};
}

RecomputePlanner::RecomputePlanner(const Graph& graph, PlanOptions options,
                                   RecomputeOptions recompute)
    : graph_(graph),
      options_(std::move(options)),
      recompute_(std::move(recompute)) {
  options_.budget.reset();
}

Rehearsal& RecomputePlanner::GetRehearsal() {
  if (!rehearsal_) {
    rehearsal_.emplace(graph_, RehearsalOptions{.alignment = options_.alignment,
                                                .in_place = options_.in_place,
                                                .workspace = options_.workspace,
                                                .cost = recompute_.cost});
  }
  return *rehearsal_;
}

Status RecomputePlanner::Prepare() {
  if (given_) return {};
  STOWAGE_ASSIGN_OR_RETURN(Plan given, PlanMemory(graph_, options_));
  GetRehearsal();
  STOWAGE_RETURN_IF_ERROR(Mark(graph_, *rehearsal_, recompute_.always_kept,
                               "kept", &decisions_.always_kept));
  STOWAGE_RETURN_IF_ERROR(Mark(graph_, *rehearsal_, recompute_.always_remade,
                               "recomputed", &decisions_.always_remade));
  for (const ValueId id : rehearsal_->candidates()) {
    if (!decisions_.always_kept[Index(id)] ||
        !decisions_.always_remade[Index(id)]) {
      continue;
    }
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[recompute] ", Quoted(graph_.value(id).name),
                        " is to be always kept and always recomputed; name it "
                        "once")};
  }
  reserved_ = given.arena_bytes() - given.regions.span();
  given_ = std::move(given);
  return {};
}

Status RecomputePlanner::Search() {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  if (!choices_.empty()) return {};
  decisions_.gradients = recompute_.gradients;
  decisions_.effort = recompute_.effort;
  for (Bargain& bargain : SearchRecompute(graph_, *rehearsal_, decisions_)) {
    choices_.push_back({std::move(bargain), std::nullopt});
  }
  if (choices_.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "[recompute] what is to be always recomputed would read "
                 "params that have been updated by then; name less"};
  }
  return Bound();
}

// Full moments, spread over the step, at which bytes are dearest.
Status RecomputePlanner::Bound() {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  if (!full_times_.empty()) return {};
  if (!rehearsal_->Run(rehearsal_->AsGiven())) return {};
  const RecomputeBound bound(graph_, *rehearsal_);
  const auto live = rehearsal_->live();
  const int count = std::min(kBoundTimes, graph_.num_nodes());
  for (int k = 0; k < count; ++k) {
    const auto at = [&](int part) {
      return live.begin() + int64_t{graph_.num_nodes()} * part / count;
    };
    const auto time =
        static_cast<NodeId>(std::max_element(at(k), at(k + 1)) - live.begin());
    full_times_.push_back({bound.Forced(time), bound.Tradeoffs(time)});
  }
  return {};
}

Result<double> RecomputePlanner::LeastExtraCost(Bytes budget) {
  STOWAGE_RETURN_IF_ERROR(Bound());
  return LeastFor(budget);
}

Result<Plan> RecomputePlanner::PlanAsGiven() {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  return *given_;
}

double RecomputePlanner::Cost() { return GetRehearsal().cost(); }

double RecomputePlanner::LeastFor(Bytes budget) const {
  double least = 0;
  for (const FullTime& time : full_times_) {
    least = std::max(
        least, LeastCost(time.tradeoffs, budget - reserved_ - time.forced));
  }
  return least;
}

// Of the latest run of the rehearsal.
double RecomputePlanner::ExtraFlops() const {
  double flops = 0;
  for (const Rehearsal::Item& item : rehearsal_->items()) {
    if (item.again) flops += NodeFlops(graph_, graph_.node(item.node));
  }
  return flops;
}

// Of the latest run of the rehearsal. What runs again only for another's sake
// is part of the other's cost.
std::vector<Remade> RecomputePlanner::Explain() const {
  const auto items = rehearsal_->items();
  const auto is_freed = [&](ValueId id) {  // or a gradient
    return rehearsal_->is_saved(id) ||
           graph_.node(graph_.value(id).producer).phase != Phase::kForward;
  };
  const auto freed = [&](NodeId n) {
    Bytes sum = 0;
    for (const ValueId id : graph_.node(n).results) {
      if (is_freed(id)) sum += graph_.value(id).type.bytes();
    }
    return sum;
  };
  std::map<int32_t, NodeId> for_whom;  // by instance
  std::map<NodeId, Remade> by_node;
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    if (!item->again) continue;
    const Node& node = graph_.node(item->node);
    NodeId whom = item->node;
    if (freed(item->node) == 0) {
      for (size_t r = 0; r < node.results.size(); ++r) {
        const auto entry =
            for_whom.find(item->first_result + static_cast<int32_t>(r));
        if (entry != for_whom.end()) whom = entry->second;
      }
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      for_whom[rehearsal_->operands()[Index(item->operands) + i]] = whom;
    }
    if (rehearsal_->is_view(item->node)) continue;
    Remade& remade = by_node[whom];
    remade.flops += NodeFlops(graph_, node);
    if (whom == item->node) ++remade.times;
  }
  std::vector<Remade> all;
  for (auto& [n, remade] : by_node) {
    const std::vector<ValueId>& results = graph_.node(n).results;
    const auto dropped = std::ranges::find_if(results, is_freed);
    remade.name =
        graph_.value(dropped == results.end() ? results[0] : *dropped).name;
    remade.freed = freed(n);
    all.push_back(std::move(remade));
  }
  std::ranges::stable_sort(
      all, [](const Remade& a, const Remade& b) { return a.freed > b.freed; });
  return all;
}

Result<RecomputedPlan> RecomputePlanner::PlanScript(const Script& script) {
  RecomputedPlan made;
  if (script.empty()) {
    STOWAGE_RETURN_IF_ERROR(Prepare());
    made.graph = graph_;
    made.plan = *given_;
    return made;
  }
  if (!GetRehearsal().Run(script)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[recompute] graph ", Quoted(graph_.name()),
                        " cannot run again what is asked for: a node would "
                        "read what is not there, or a param that has been "
                        "updated by then")};
  }
  made.recomputed_nodes = rehearsal_->nodes_again();
  STOWAGE_ASSIGN_OR_RETURN(made.graph, Rewrite(graph_, *rehearsal_));
  STOWAGE_ASSIGN_OR_RETURN(made.plan, PlanMemory(made.graph, options_));
  if (!made.plan.optimal && options_.packer == Packer::kGreedy &&
      made.plan.buffers.size() <= kFewBuffers) {
    PlanOptions thorough = options_;
    thorough.packer = Packer::kBest;
    STOWAGE_ASSIGN_OR_RETURN(made.plan, PlanMemory(made.graph, thorough));
  }
  made.extra_flops = ExtraFlops();
  if (made.extra_flops > 0) {
    made.extra_percent = 100 * made.extra_flops / GraphFlops(graph_);
  }
  made.extra_cost = rehearsal_->extra_cost();
  made.remade = Explain();
  made.script = script;
  return made;
}

Result<Bytes> RecomputePlanner::Arena(Choice& choice) {
  if (!choice.arena) {
    STOWAGE_ASSIGN_OR_RETURN(const RecomputedPlan made,
                             PlanScript(choice.bargain.script));
    choice.arena = made.plan.arena_bytes();
  }
  return *choice.arena;
}

bool RecomputePlanner::IsAllowed(const Choice& choice,
                                 Recompute recompute) const {
  switch (recompute) {
    case Recompute::kNone:
      return choice.bargain.script.empty();
    case Recompute::kCheap:
      return choice.bargain.cost <= kCheapShare * rehearsal_->cost() ||
             &choice == &choices_.front();
    case Recompute::kAuto:
      return true;
  }
  STOWAGE_CHECK(false);
}

Result<RecomputedPlan> RecomputePlanner::PlanFor(std::optional<Bytes> budget) {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  const bool fits = !budget || given_->arena_bytes() <= *budget;
  const bool as_given = recompute_.recompute == Recompute::kNone ||
                        recompute_.always_remade.empty();
  if (fits && as_given) return PlanScript({});
  STOWAGE_RETURN_IF_ERROR(Search());
  for (Choice& choice : choices_) {
    if (!IsAllowed(choice, recompute_.recompute)) continue;
    const Bytes least = choice.arena.value_or(reserved_ + choice.bargain.peak);
    if (budget && least > *budget) continue;
    STOWAGE_ASSIGN_OR_RETURN(RecomputedPlan made,
                             PlanScript(choice.bargain.script));
    choice.arena = made.plan.arena_bytes();
    if (budget && *choice.arena > *budget) continue;
    if (budget) made.least_extra_cost = LeastFor(*budget);
    return made;
  }
  return Refusal(*budget);
}

Error RecomputePlanner::Refusal(Bytes budget) {
  const Result<Bytes> least = SmallestBudget(Recompute::kAuto);
  if (!least.ok()) return least.error();
  const Bytes smallest = *least;
  PlanOptions options = options_;
  options.budget = budget;
  const Result<Plan> plan = PlanMemory(graph_, options);
  if (plan.ok()) {
    return Error{
        ErrorCode::kBudgetTooSmall,
        StrCat("[plan] budget ", budget, " bytes is below the ", smallest,
               " bytes that are needed when what is named is always "
               "recomputed; without that it fits")};
  }
  Error refusal = plan.error();
  if (smallest < given_->arena_bytes()) {
    const std::string figure = FormatBytes(smallest);
    refusal.message += StrCat(", or ", figure);
    if (figure == FormatBytes(budget)) {
      refusal.message += StrCat(" (", smallest, " bytes)");
    }
    refusal.message += " with recompute";
  }
  return refusal;
}

Result<RecomputePlanner::Choice*> RecomputePlanner::Smallest(
    Recompute recompute) {
  STOWAGE_RETURN_IF_ERROR(Search());
  Choice* smallest = nullptr;
  for (auto choice = choices_.rbegin(); choice != choices_.rend(); ++choice) {
    if (!IsAllowed(*choice, recompute)) continue;
    if (smallest && reserved_ + choice->bargain.peak >= *smallest->arena) break;
    STOWAGE_ASSIGN_OR_RETURN(const Bytes arena, Arena(*choice));
    if (!smallest || arena < *smallest->arena) smallest = &*choice;
  }
  return smallest;
}

Result<Bytes> RecomputePlanner::SmallestBudget(Recompute recompute) {
  STOWAGE_RETURN_IF_ERROR(Prepare());
  if (recompute == Recompute::kNone) return given_->arena_bytes();
  STOWAGE_ASSIGN_OR_RETURN(const Choice* const smallest, Smallest(recompute));
  return *smallest->arena;
}

Result<RecomputedPlan> RecomputePlanner::SmallestPlan(Recompute recompute) {
  if (recompute == Recompute::kNone) return PlanScript({});
  STOWAGE_ASSIGN_OR_RETURN(const Choice* const smallest, Smallest(recompute));
  return PlanScript(smallest->bargain.script);
}

Result<std::vector<FrontierPoint>> RecomputePlanner::Frontier() {
  STOWAGE_RETURN_IF_ERROR(Search());
  std::vector<FrontierPoint> points;
  for (Choice& choice : choices_) {
    if (!IsAllowed(choice, recompute_.recompute)) continue;
    STOWAGE_ASSIGN_OR_RETURN(const Bytes arena, Arena(choice));
    if (!points.empty() && arena >= points.back().arena) continue;
    STOWAGE_CHECK(rehearsal_->Run(choice.bargain.script));
    const double flops = ExtraFlops();
    points.push_back(
        {.arena = arena,
         .extra_flops = flops,
         .extra_percent = 100 * flops / std::max(GraphFlops(graph_), 1.0),
         .extra_cost = rehearsal_->extra_cost(),
         .least_extra_cost = LeastFor(arena),
         .recomputed_nodes = rehearsal_->nodes_again(),
         .script = choice.bargain.script});
  }
  return points;
}

Result<RecomputedPlan> PlanWithRecompute(const Graph& graph,
                                         const PlanOptions& options,
                                         const RecomputeOptions& recompute) {
  return RecomputePlanner(graph, options, recompute).PlanFor(options.budget);
}

}  // namespace stowage::fit
