#include "planner/fit/recompute/recompute.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/layout.h"
#include "planner/fit/recompute/chain.h"
#include "planner/fit/recompute/climb.h"
#include "planner/fit/recompute/exact.h"

namespace stowage::fit {
namespace {

constexpr int kBoundTimes = 24;         // times of the lower bound
constexpr size_t kFewBuffers = 256;     // in steps that take the best packer
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

// Finds times near the peak, spread over the step.
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
  // Gradients are recomputed in small steps only.
  Bytes least = bound_->MostForced(recompute_.gradients &&
                                   IsSmallStep(graph_, *simulation_));
  for (const FullTime& time : full_times_) {
    least = std::max(least, time.forced + bound_->LeastStored(time.time));
  }
  return *(least_arena_ = reserved_ + least);
}

Result<RecomputedGraph> RecomputeChoices::Make(const Script& script) {
  RecomputedGraph made;
  made.packer = options_.packer;
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
    made.packer = thorough.packer = Packer::kBest;
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

namespace {

constexpr double kMaxSets = 5e6;              // visited in a small step
constexpr double kMaxSetsBesideCopies = 5e5;  // of one that copies to the host
constexpr int kTimes = 8;                     // at which cuts are made
// Points of the frontier times nodes, which bounds the bytes of all scripts.
constexpr size_t kMaxNodesInScripts = size_t{1} << 24;
constexpr int kMaxSegments = 64;
constexpr int64_t kMaxNodesInSegments = 30'000;  // in one simulation of them
// The effort, in nodes simulated: of the climb of single values, and of the other searches.
constexpr double kMaxNodes = 40e6;
constexpr double kMaxNodesLazily = 15e6;
constexpr double kMaxNodesByClass = 20e6;
constexpr double kMaxNodesRefilling = 10e6;
constexpr double kMaxNodesInChains = 15e6;

bool HasValuesOnHost(const Graph& graph) {
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    if (graph.value(id).on_host) return true;
  }
  return false;
}

class Search {
 public:
  Search(const Graph& graph, Simulation& simulation,
         const RecomputeSearchOptions& options)
      : graph_(graph),
        simulation_(simulation),
        options_(options),
        frontier_(simulation, options.on_choice) {
    for (size_t gap = 0; gap < simulation_.gaps().size(); ++gap) {
      const ValueId id = simulation_.gaps()[gap].value;
      if (!IsAmong(options_.always_kept, id) &&
          !IsAmong(options_.always_recomputed, id)) {
        free_.push_back(gap);
      }
    }
  }

  std::vector<FoundScript> Run() {
    const std::vector<Fate> given = Decided(simulation_.AsGiven());
    frontier_.Extend(Effort(kMaxNodes));
    if (!frontier_.Try(given)) return {};
    std::map<Bytes, Frontier::Point> cheapest;
    const bool is_complete = SearchAll(&cheapest);
    if (!is_complete) FindPoints(given);
    for (auto& [peak, point] : cheapest) {
      frontier_.Add(peak, std::move(point));
    }
    if (!is_complete) TryChain();
    std::vector<FoundScript> all;
    // Scripts of large steps are large, so they are made at the end, and of so many points,
    // evenly, as the limit allows: all of a step of 1,000 nodes with 16,000 points.
    std::map<Bytes, Frontier::Point> points = frontier_.TakePoints();
    const size_t stride =
        points.size() * Index(graph_.num_nodes()) / kMaxNodesInScripts + 1;
    size_t index = 0;
    for (auto& [peak, point] : points) {
      const bool is_last = index + 1 == points.size();
      if (index++ % stride != 0 && !is_last) continue;
      if (!point.fates.empty()) {
        STOWAGE_CHECK(simulation_.Run(point.fates));
        point.script = simulation_.script();
      }
      all.push_back({peak, point.cost, std::move(point.script)});
    }
    std::reverse(all.begin(), all.end());
    return all;
  }

 private:
  int64_t Effort(double nodes) const {
    return static_cast<int64_t>(options_.effort * nodes);
  }

  bool IsAmong(const std::vector<uint8_t>& marks, ValueId id) const {
    return !marks.empty() && marks[Index(id)] != 0;
  }

  std::vector<Fate> Decided(std::vector<Fate> fates) const {
    for (size_t gap = 0; gap < fates.size(); ++gap) {
      const ValueId id = simulation_.gaps()[gap].value;
      if (IsAmong(options_.always_kept, id)) fates[gap] = Fate::kKept;
      if (IsAmong(options_.always_recomputed, id))
        fates[gap] = Fate::kRecomputed;
    }
    return fates;
  }

  // Finds the cheapest of all scripts for every peak, as far down as the effort goes. False if that
  // is not all the way, the step is too large, or the user has decided some fates.
  bool SearchAll(std::map<Bytes, Frontier::Point>* cheapest) {
    if (free_.size() < simulation_.gaps().size() ||
        !IsSmallStep(graph_, simulation_)) {
      return false;
    }
    int64_t effort =
        Effort(HasValuesOnHost(graph_) ? kMaxSetsBesideCopies : kMaxSets);
    Bytes peak = frontier_.latest().peak;
    while (true) {
      const auto script = CheapestScript(graph_, simulation_, peak - 1,
                                         options_.gradients, &effort);
      if (!script) return effort > 0;
      STOWAGE_CHECK(simulation_.Run(*script) && simulation_.peak() < peak);
      peak = simulation_.peak();
      (*cheapest)[peak] = {simulation_.extra_cost(), {}, *script};
    }
  }

  // Searches from cuts and segments down to the smallest peaks.
  void FindPoints(const std::vector<Fate>& given) {
    if (!frontier_.Try(given)) return;
    const Bytes start = frontier_.latest().peak;
    full_times_ = FullestTimes(simulation_, kTimes);
    TryCuts();
    TryCheckpoints();
    const std::vector<std::vector<size_t>> classes =
        FindClasses(graph_, simulation_, free_);
    Climb climb(graph_, simulation_, classes, frontier_);
    climb.Down(start);
    climb.FillSteps(start);
    if (frontier_.is_spent()) {
      frontier_.Extend(Effort(kMaxNodesLazily));
      climb.Lazily(start);
    }
    frontier_.Extend(Effort(kMaxNodesByClass));
    ClassClimb(graph_, simulation_, classes, frontier_, climb)
        .Down(start, given);
    frontier_.Extend(Effort(kMaxNodesRefilling));
    climb.RefillPoints(start);
    climb.FillSteps(start);
  }

  void TryCuts() {
    const RecomputeBound bound(graph_, simulation_);
    for (const NodeId time : full_times_) {
      const std::vector<Tradeoff> tradeoffs = bound.Tradeoffs(time);
      for (size_t k = 0; k < tradeoffs.size(); ++k) {
        const std::vector<Fate> to = Decided(tradeoffs[k].fates);
        frontier_.Try(to);
        if (k > 0) Change(Decided(tradeoffs[k - 1].fates), to);
      }
    }
  }

  // Divides forward into segments: values that cross their borders are kept, all others are
  // recomputed a segment at a time (Chen et al., 2016, for any graph). A border is where the fewest
  // bytes cross, near its share of the saved bytes.
  void TryCheckpoints() {
    NodeId end = 0;
    for (const ValueId id : simulation_.candidates()) {
      end = std::max(end, simulation_.gaps_of(id).front().begin + 1);
    }
    std::vector<Bytes> crossing(Index(end) + 1, 0);
    std::vector<double> saved(Index(end) + 1, 0);  // up to each node
    for (const ValueId id : simulation_.candidates()) {
      const NodeId producer = graph_.value(id).producer;
      crossing[Index(producer)] += simulation_.bytes(id);
      crossing[Index(simulation_.gaps_of(id).front().begin)] -=
          simulation_.bytes(id);
      if (simulation_.is_saved(id)) {
        saved[Index(producer)] += static_cast<double>(simulation_.bytes(id));
      }
    }
    for (size_t n = 1; n < crossing.size(); ++n) {
      crossing[n] += crossing[n - 1];
      saved[n] += saved[n - 1];
    }
    const auto node_at = [&](double share) {
      const auto at = std::ranges::lower_bound(saved, share * saved.back());
      return std::min(static_cast<size_t>(at - saved.begin()), Index(end) - 1);
    };
    for (int segments = 2; segments <= kMaxSegments; ++segments) {
      std::vector<NodeId> borders;
      for (int k = 1; k < segments; ++k) {
        const size_t from = node_at((k - 0.25) / segments);
        const size_t to = node_at((k + 0.25) / segments);
        const auto least =
            std::min_element(crossing.begin() + static_cast<int64_t>(from),
                             crossing.begin() + static_cast<int64_t>(to) + 1);
        borders.push_back(static_cast<NodeId>(least - crossing.begin()));
      }
      for (const bool keeps_last : {true, false}) {
        frontier_.Try(
            Decided(FatesOfSegments(borders, Fate::kRecomputed, keeps_last)));
        // Needs fewer bytes, for a quadratic number of nodes in a segment.
        if (int64_t{end} * end / segments > kMaxNodesInSegments) continue;
        frontier_.Try(Decided(
            FatesOfSegments(borders, Fate::kRecomputedEachTime, keeps_last)));
      }
    }
  }

  std::vector<Fate> FatesOfSegments(const std::vector<NodeId>& borders,
                                    Fate within, bool keeps_last) const {
    std::vector<Fate> fates = simulation_.AsGiven();
    for (const ValueId id : simulation_.candidates()) {
      const NodeId producer = graph_.value(id).producer;
      if (keeps_last && producer > borders.back()) continue;
      const auto next = std::ranges::lower_bound(borders, producer);
      const std::span<const Gap> gaps = simulation_.gaps_of(id);
      const bool crosses = next != borders.end() && *next < gaps.front().begin;
      for (size_t k = 0; k < gaps.size(); ++k) {
        fates[simulation_.first_gap(id) + k] = crosses ? Fate::kKept : within;
      }
    }
    return fates;
  }

  // Changes `from` to `to`, one group of neighbours at a time.
  void Change(std::vector<Fate> from, const std::vector<Fate>& to) {
    std::vector<int32_t> leader(Index(graph_.num_values()), -1);
    const auto find = [&](ValueId id) {
      while (leader[Index(id)] != id) id = leader[Index(id)];
      return id;
    };
    std::vector<size_t> changed;
    for (const size_t gap : free_) {
      if (from[gap] == to[gap]) continue;
      changed.push_back(gap);
      const ValueId id = simulation_.gaps()[gap].value;
      if (leader[Index(id)] >= 0) continue;
      leader[Index(id)] = id;
      const Node& node = graph_.node(graph_.value(id).producer);
      const auto join = [&](ValueId other) {
        if (leader[Index(other)] < 0) return;
        const ValueId a = find(id);
        const ValueId b = find(other);
        leader[Index(std::max(a, b))] = std::min(a, b);
      };
      for (const ValueId input : node.inputs) join(simulation_.root(input));
      for (const ValueId result : node.results) join(result);
    }
    ValueId previous = -1;
    for (const size_t first : changed) {
      const ValueId group = simulation_.gaps()[first].value;
      if (find(group) != group || group == previous) continue;
      previous = group;
      for (const size_t gap : changed) {
        if (find(simulation_.gaps()[gap].value) == group) from[gap] = to[gap];
      }
      frontier_.Try(from);
    }
  }

  // Tries a chain of equal pieces with every number of borders in memory; of many pieces, with every
  // second number, or third, as far as the effort goes.
  void TryChain() {
    if (free_.size() < simulation_.gaps().size()) return;
    const std::optional<Chain> chain = FindChain(graph_, simulation_);
    if (!chain) return;
    const int64_t effort = Effort(kMaxNodesInChains);
    const auto nodes = [&](int64_t places) {
      return graph_.num_nodes() + chain->NodesAgain(places);
    };
    const int64_t most = chain->states() - 1;
    const int64_t stride =
        most * nodes(std::max<int64_t>(1, most / 2)) / effort + 1;
    int64_t run = 0;
    for (int64_t places = most; places > 0; places -= stride) {
      run += nodes(places);
      if (run > effort) return;
      frontier_.Try(chain->Again(places));
    }
  }

  const Graph& graph_;
  Simulation& simulation_;
  const RecomputeSearchOptions& options_;
  Frontier frontier_;
  std::vector<size_t> free_;        // gaps that the user has not decided
  std::vector<NodeId> full_times_;  // of the step as given
};

}  // namespace

std::vector<FoundScript> SearchRecompute(
    const Graph& graph, Simulation& simulation,
    const RecomputeSearchOptions& options) {
  return Search(graph, simulation, options).Run();
}

}  // namespace stowage::fit
