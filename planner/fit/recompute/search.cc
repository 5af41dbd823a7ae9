#include "planner/fit/recompute/search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "planner/fit/recompute/chain.h"
#include "planner/fit/recompute/class_climb.h"
#include "planner/fit/recompute/classes.h"
#include "planner/fit/recompute/climb.h"
#include "planner/fit/recompute/exact.h"
#include "planner/fit/recompute/frontier.h"

namespace stowage::fit {
namespace {

constexpr double kMaxSets = 5e6;              // visited in a small step
constexpr double kMaxSetsBesideCopies = 5e5;  // of one that copies to the host
constexpr int kTimes = 8;                     // at which cuts are made
constexpr int kMaxSegments = 64;              // of checkpointing
constexpr int64_t kMaxNodesInSegments = 30'000;  // in one simulation of them
// Nodes in all simulations together, until the climb of single values has to end; and what
// the others may add.
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
    for (const auto& [peak, point] : frontier_.points()) {
      all.push_back({peak, point.cost, point.script});
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

  // The cheapest of all scripts, for every peak at which there is another, as far down as
  // the effort goes. False if that is not all the way, the step is too large, or the user
  // has decided some.
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

  // From guesses at what to keep, down to the smallest peaks.
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

  // Divides forward into so many segments: values that cross their borders are kept, all
  // others are recomputed a segment at a time (Chen et al., 2016, for any graph). A border
  // is where the fewest bytes cross, near its share of the saved bytes.
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
        // Fewer bytes yet, for a segment's nodes times their number.
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

  // From some fates to others, one group of neighbours after the other.
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

  // A chain of equal pieces, with every possible number of borders in memory at a time; of
  // many pieces with every second number, or third, as far as the effort goes.
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
