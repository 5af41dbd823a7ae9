#include "planner/fit/recompute/search.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/index.h"
#include "planner/fit/recompute/chain.h"
#include "planner/fit/recompute/exact.h"

namespace stowage::fit {
namespace {

constexpr double kMostSets = 5e6;            // gone through in a small step
constexpr int kTimes = 8;                    // at which cuts are made
constexpr int kMostSegments = 64;            // of checkpointing
constexpr int64_t kMostNodesAgain = 30'000;  // in one rehearsal of it
constexpr int kTargets = 64;                 // on the ladder
constexpr double kLeap = 0.01;               // of the step's operations
constexpr int kMostLeaps = 100;
constexpr size_t kMostTangled = 5;
constexpr int64_t kMostNodesUntangling = 3'000'000;
constexpr double kMostNodesRun = 40e6;     // in all rehearsals together,
constexpr double kMostNodesLazily = 15e6;  // and in those of lazy steps
constexpr double kMostNodesInChains = 15e6;

class Search {
 public:
  Search(const Graph& graph, Rehearsal& rehearsal,
         const RecomputeSearchOptions& options)
      : graph_(graph),
        rehearsal_(rehearsal),
        options_(options),
        most_nodes_run_(static_cast<int64_t>(options.effort * kMostNodesRun)) {
    FindFree();
    FindClasses();
  }

  std::vector<FoundScript> Run() {
    const std::vector<Fate> given = Decided(rehearsal_.AsGiven());
    if (!Try(given)) return {};
    const Outcome start = outcome_;
    full_times_ = FullestTimes(rehearsal_, kTimes);
    if (!SearchAll()) {
      // Fates stand for scripts below; what is known to be cheapest has none.
      std::map<Bytes, Found> cheapest = std::move(found_);
      found_.clear();
      if (!Try(given)) return {};
      TryCuts();
      TryCheckpoints();
      ClimbDown(start.peak);
      FillSteps(start.peak);
      if (nodes_run_ > most_nodes_run_) ClimbLazily(start.peak);
      for (auto& [peak, found] : cheapest) {
        if (IsBargain(peak, found.cost)) Remember(peak, std::move(found));
      }
      TryChain();
    }
    std::vector<FoundScript> all;
    double least = std::numeric_limits<double>::infinity();
    for (auto& [peak, found] : found_) {
      // By rising peak; keep what is cheaper than all that is smaller.
      if (found.cost >= least) continue;
      least = found.cost;
      all.push_back({peak, found.cost, std::move(found.script)});
    }
    std::reverse(all.begin(), all.end());
    return all;
  }

 private:
  struct Outcome {
    Bytes peak = 0;
    double cost = 0;
  };
  struct Found {
    double cost;
    std::vector<Fate> fates;
    Script script;
  };

  bool IsAmong(const std::vector<uint8_t>& marks, ValueId id) const {
    return !marks.empty() && marks[Index(id)] != 0;
  }

  // The gaps that the search may decide on.
  void FindFree() {
    for (size_t gap = 0; gap < rehearsal_.gaps().size(); ++gap) {
      const ValueId id = rehearsal_.gaps()[gap].value;
      if (!IsAmong(options_.always_kept, id) &&
          !IsAmong(options_.always_remade, id)) {
        free_.push_back(gap);
      }
    }
  }

  std::vector<Fate> Decided(std::vector<Fate> fates) const {
    for (size_t gap = 0; gap < fates.size(); ++gap) {
      const ValueId id = rehearsal_.gaps()[gap].value;
      if (IsAmong(options_.always_kept, id)) fates[gap] = Fate::kKept;
      if (IsAmong(options_.always_remade, id)) fates[gap] = Fate::kRemade;
    }
    return fates;
  }

  // Gaps are of one class when the nodes of their values, and those around them
  // to a distance of two, look alike but for names.
  void FindClasses() {
    const auto mix = [](uint64_t a, uint64_t b) {
      return (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) *
             1099511628211u;
    };
    std::vector<uint64_t> hash(Index(graph_.num_values()));
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      const ValueInfo& info = graph_.value(id);
      Fnv1a h;
      h.Update(info.type.ToString());
      h.Update(info.is_leaf() ? RoleName(info.role)
                              : OpName(graph_.node(info.producer).op));
      hash[Index(id)] = mix(h.digest(), static_cast<uint64_t>(info.result));
    }
    for (int round = 0; round < 2; ++round) {
      std::vector<uint64_t> next = hash;
      for (const Node& node : graph_.nodes()) {
        uint64_t inputs = 7;
        for (const ValueId input : node.inputs) {
          inputs = mix(inputs, hash[Index(input)]);
        }
        for (const ValueId result : node.results) {
          uint64_t& mine = next[Index(result)];
          mine = mix(mine, inputs);
          for (const ValueId input : node.inputs) {
            if (!graph_.value(input).is_leaf()) {
              next[Index(input)] += hash[Index(result)] * 31;
            }
          }
        }
      }
      hash = std::move(next);
    }
    std::map<uint64_t, size_t> index;
    for (const size_t gap : free_) {
      const ValueId id = rehearsal_.gaps()[gap].value;
      const uint64_t key = mix(hash[Index(id)], gap - rehearsal_.first_gap(id));
      const auto [entry, is_new] = index.try_emplace(key, classes_.size());
      if (is_new) classes_.emplace_back();
      classes_[entry->second].push_back(gap);
    }
  }

  // Rehearses; remembers the outcome when it is a bargain. False when it cannot
  // be run, or when the effort is spent.
  bool Try(const std::vector<Fate>& fates) {
    if (nodes_run_ > most_nodes_run_) return false;
    if (options_.on_choice) options_.on_choice();
    if (!rehearsal_.Run(fates)) return false;
    nodes_run_ += static_cast<int64_t>(rehearsal_.items().size());
    outcome_ = {rehearsal_.peak(), rehearsal_.extra_cost()};
    if (IsBargain(outcome_.peak, outcome_.cost)) {
      Remember(outcome_.peak, {outcome_.cost, fates, rehearsal_.script()});
    }
    return true;
  }

  bool IsBargain(Bytes peak, double cost) const {
    const auto at = found_.upper_bound(peak);
    return at == found_.begin() || std::prev(at)->second.cost > cost;
  }

  void Remember(Bytes peak, Found found) {
    auto at = found_.upper_bound(peak);
    while (at != found_.end() && at->second.cost >= found.cost) {
      at = found_.erase(at);
    }
    found_.insert_or_assign(peak, std::move(found));
  }

  // The cheapest of all scripts, for every peak at which there is another, as
  // far down as the effort goes. False when that is not all the way, the step is
  // too large, or the user has decided some.
  bool SearchAll() {
    if (free_.size() < rehearsal_.gaps().size() ||
        !IsSmallStep(graph_, rehearsal_)) {
      return false;
    }
    auto effort = static_cast<int64_t>(options_.effort * kMostSets);
    while (true) {
      const Bytes peak = found_.begin()->first;
      const auto script = CheapestScript(graph_, rehearsal_, peak - 1,
                                         options_.gradients, &effort);
      if (!script) return effort > 0;
      STOWAGE_CHECK(rehearsal_.Run(*script) && rehearsal_.peak() < peak);
      Remember(rehearsal_.peak(), {rehearsal_.extra_cost(), {}, *script});
    }
  }

  void TryCuts() {
    const RecomputeBound bound(graph_, rehearsal_);
    for (const NodeId time : full_times_) {
      const std::vector<Tradeoff> tradeoffs = bound.Tradeoffs(time);
      for (size_t k = 0; k < tradeoffs.size(); ++k) {
        const std::vector<Fate> to = Decided(tradeoffs[k].fates);
        Try(to);
        if (k > 0) Change(Decided(tradeoffs[k - 1].fates), to);
      }
    }
  }

  // Forward in so many segments: what crosses their borders is kept, all else
  // made again a segment at a time (Chen et al., 2016, for any graph). A border
  // is where the fewest bytes cross, near its share of what is saved.
  void TryCheckpoints() {
    NodeId end = 0;
    for (const ValueId id : rehearsal_.candidates()) {
      end = std::max(end, rehearsal_.gaps_of(id).front().begin + 1);
    }
    std::vector<Bytes> crossing(Index(end) + 1, 0);
    std::vector<double> saved(Index(end) + 1, 0);  // up to each node
    for (const ValueId id : rehearsal_.candidates()) {
      const NodeId producer = graph_.value(id).producer;
      crossing[Index(producer)] += rehearsal_.bytes(id);
      crossing[Index(rehearsal_.gaps_of(id).front().begin)] -=
          rehearsal_.bytes(id);
      if (rehearsal_.is_saved(id)) {
        saved[Index(producer)] += static_cast<double>(rehearsal_.bytes(id));
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
    for (int segments = 2; segments <= kMostSegments; ++segments) {
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
        Try(Decided(FatesOfSegments(borders, Fate::kRemade, keeps_last)));
        // Fewer bytes yet, for a segment's nodes times their number.
        if (int64_t{end} * end / segments > kMostNodesAgain) continue;
        Try(Decided(
            FatesOfSegments(borders, Fate::kRemadeEachTime, keeps_last)));
      }
    }
  }

  std::vector<Fate> FatesOfSegments(const std::vector<NodeId>& borders,
                                    Fate within, bool keeps_last) const {
    std::vector<Fate> fates = rehearsal_.AsGiven();
    for (const ValueId id : rehearsal_.candidates()) {
      const NodeId producer = graph_.value(id).producer;
      if (keeps_last && producer > borders.back()) continue;
      const auto next = std::ranges::lower_bound(borders, producer);
      const std::span<const Gap> gaps = rehearsal_.gaps_of(id);
      const bool crosses = next != borders.end() && *next < gaps.front().begin;
      for (size_t k = 0; k < gaps.size(); ++k) {
        fates[rehearsal_.first_gap(id) + k] = crosses ? Fate::kKept : within;
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
      const ValueId id = rehearsal_.gaps()[gap].value;
      if (leader[Index(id)] >= 0) continue;
      leader[Index(id)] = id;
      const Node& node = graph_.node(graph_.value(id).producer);
      const auto join = [&](ValueId other) {
        if (leader[Index(other)] < 0) return;
        const ValueId a = find(id);
        const ValueId b = find(other);
        leader[Index(std::max(a, b))] = std::min(a, b);
      };
      for (const ValueId input : node.inputs) join(rehearsal_.root(input));
      for (const ValueId result : node.results) join(result);
    }
    ValueId previous = -1;
    for (const size_t first : changed) {
      const ValueId group = rehearsal_.gaps()[first].value;
      if (find(group) != group || group == previous) continue;
      previous = group;
      for (const size_t gap : changed) {
        if (find(rehearsal_.gaps()[gap].value) == group) from[gap] = to[gap];
      }
      Try(from);
    }
  }

  // Bytes above the target, summed over time.
  double Excess(Bytes target) const {
    double sum = 0;
    for (const Bytes live : rehearsal_.live()) {
      if (live > target) sum += static_cast<double>(live - target);
    }
    return sum;
  }

  // Of every class the first and the last value of the given fate.
  template <typename Visit>
  void ForEachMove(const std::vector<Fate>& fates, Fate fate,
                   Visit visit) const {
    for (const std::vector<size_t>& members : classes_) {
      const auto has_fate = [&](size_t gap) { return fates[gap] == fate; };
      const auto first = std::ranges::find_if(members, has_fate);
      if (first == members.end()) continue;
      const size_t last =
          *std::find_if(members.rbegin(), members.rend(), has_fate);
      visit(*first);  // which may change its fate
      if (last != *first) visit(last);
    }
  }

  // A value to be dropped, or kept again, and what that was worth when last looked
  // at: bytes above the target, summed over time, per extra cost.
  struct Move {
    size_t gap;
    Fate fate;
    double worth;
  };

  // Which moves are looked at before the best is made: all; or, since as a rule a
  // move is worth less once others are made, only those that were worth more than
  // the best is now (Minoux 1978, "Accelerated greedy algorithms for maximizing
  // submodular set functions"). That looks at far fewer, and misses what
  // has become worth more.
  enum class Greedy { kThorough, kLazy };

  // Drops values until the target is met. False when nothing helps any more.
  bool Reach(Bytes target, std::vector<Fate>* fates,
             Greedy greedy = Greedy::kThorough) {
    if (!Try(*fates)) return false;
    std::map<std::pair<size_t, Fate>, double> known;  // worth of moves
    while (outcome_.peak > target) {
      const double before = outcome_.cost;
      const double excess = Excess(target);
      const double least = 1e-9 * rehearsal_.cost() + 1;
      std::vector<Move> moves;
      const auto add = [&](size_t gap, Fate fate) {
        const auto at = known.find({gap, fate});
        moves.push_back({gap, fate,
                         at != known.end()
                             ? at->second
                             : std::numeric_limits<double>::infinity()});
      };
      ForEachMove(*fates, Fate::kKept,
                  [&](size_t gap) { add(gap, Fate::kRemade); });
      ForEachMove(*fates, Fate::kRemade, [&](size_t gap) {
        add(gap, Fate::kRemadeEachTime);
        add(gap, Fate::kKept);
      });
      std::ranges::stable_sort(moves, std::greater(), &Move::worth);
      std::optional<Move> best;
      for (Move move : moves) {
        if (best && move.worth <= best->worth) break;
        const Fate old = std::exchange((*fates)[move.gap], move.fate);
        move.worth = 0;
        if (Try(*fates)) {
          const double gain = excess - Excess(target);
          const double cost = std::max(outcome_.cost - before, least);
          move.worth = std::max(gain / cost, 0.0);
        }
        (*fates)[move.gap] = old;
        if (greedy == Greedy::kLazy) known[{move.gap, move.fate}] = move.worth;
        if (move.worth > (best ? best->worth : 0)) best = move;
      }
      if (best) {
        (*fates)[best->gap] = best->fate;
      } else if (!Untangle(target, fates)) {
        return false;
      }
      if (!Try(*fates)) return false;
    }
    return true;
  }

  // The node of the graph that the fullest time belongs to.
  NodeId FullestStage() const {
    const auto live = rehearsal_.live();
    const auto fullest =
        static_cast<size_t>(std::ranges::max_element(live) - live.begin());
    const auto items = rehearsal_.items();
    return items[std::min(fullest, items.size() - 1)].stage;
  }

  // Gaps, around the stage, of saved values that the nodes run for it read or
  // make: the largest values first.
  std::vector<size_t> Tangle(NodeId stage) const {
    std::set<ValueId> values;
    for (const Rehearsal::Item& item : rehearsal_.items()) {
      if (item.stage != stage) continue;
      const Node& node = graph_.node(item.node);
      for (const ValueId id : node.inputs) values.insert(rehearsal_.root(id));
      values.insert(node.results.begin(), node.results.end());
    }
    std::vector<size_t> tangle;
    for (const size_t gap : free_) {
      const Gap& g = rehearsal_.gaps()[gap];
      if (g.begin <= stage && stage <= g.end && values.contains(g.value) &&
          rehearsal_.is_saved(g.value)) {
        tangle.push_back(gap);
      }
    }
    std::ranges::stable_sort(tangle, std::greater(), [&](size_t gap) {
      return rehearsal_.bytes(rehearsal_.gaps()[gap].value);
    });
    tangle.resize(std::min(tangle.size(), kMostTangled));
    return tangle;
  }

  // The fates with a gap's value remade each time, and all that it is then made
  // from, which would otherwise stay in its place.
  std::vector<Fate> WithChainEachTime(std::vector<Fate> fates,
                                      size_t gap) const {
    const Gap& dropped = rehearsal_.gaps()[gap];
    fates[gap] = Fate::kRemadeEachTime;
    std::vector<ValueId> chain = {dropped.value};
    while (!chain.empty()) {
      const Node& node = graph_.node(graph_.value(chain.back()).producer);
      chain.pop_back();
      for (const ValueId input : node.inputs) {
        const ValueId root = rehearsal_.root(input);
        const std::span<const Gap> gaps = rehearsal_.gaps_of(root);
        for (size_t k = 0; k < gaps.size(); ++k) {
          Fate& fate = fates[rehearsal_.first_gap(root) + k];
          if (fate != Fate::kRemade || gaps[k].end <= dropped.begin ||
              gaps[k].begin >= dropped.end) {
            continue;
          }
          fate = Fate::kRemadeEachTime;
          chain.push_back(root);
        }
      }
    }
    return fates;
  }

  // Where no change by itself helps, several at once may: a value that was
  // remade for two readers is kept between them once what it is made from is
  // not; a value makes room only when what it is made from does not take it.
  // Goes through all fates of what is tangled at the fullest time, and through
  // the chains of what is kept across it.
  bool Untangle(Bytes target, std::vector<Fate>* fates) {
    if (nodes_untangling_ > kMostNodesUntangling || !Try(*fates)) return false;
    const int64_t nodes_run = nodes_run_;
    const double before = outcome_.cost;
    const double excess = Excess(target);
    const double least = 1e-9 * rehearsal_.cost() + 1;
    const NodeId stage = FullestStage();
    const std::vector<size_t> tangle = Tangle(stage);
    double best_score = 0;
    std::vector<Fate> best;
    const auto consider = [&](const std::vector<Fate>& trial) {
      if (!Try(trial)) return;
      const double gain = excess - Excess(target);
      const double cost = std::max(outcome_.cost - before, least);
      if (gain > 0 && gain / cost > best_score) {
        best_score = gain / cost;
        best = trial;
      }
    };
    int combinations = 1;
    for (size_t k = 0; k < tangle.size(); ++k) combinations *= 3;
    std::vector<Fate> trial = *fates;
    for (int combination = 0; combination < combinations; ++combination) {
      int rest = combination;
      for (const size_t gap : tangle) {
        trial[gap] = static_cast<Fate>(rest % 3);
        rest /= 3;
      }
      consider(trial);
    }
    ForEachMove(*fates, Fate::kKept, [&](size_t gap) {
      const Gap& g = rehearsal_.gaps()[gap];
      if (g.begin >= stage || g.end <= stage) return;
      consider(WithChainEachTime(*fates, gap));
    });
    nodes_untangling_ += nodes_run_ - nodes_run;
    if (best.empty()) return false;
    *fates = std::move(best);
    return true;
  }

  // Keeps values again where the target allows it and that saves operations.
  void Polish(Bytes target, std::vector<Fate>* fates) {
    if (!Try(*fates)) return;
    double least = outcome_.cost;
    bool changed = true;
    while (changed) {
      changed = false;
      const auto consider = [&](size_t gap, Fate fate) {
        const Fate old = (*fates)[gap];
        if (old == fate) return;
        (*fates)[gap] = fate;
        if (Try(*fates) && outcome_.peak <= target && outcome_.cost < least) {
          least = outcome_.cost;
          changed = true;
        } else {
          (*fates)[gap] = old;
        }
      };
      ForEachMove(*fates, Fate::kRemadeEachTime, [&](size_t gap) {
        consider(gap, Fate::kRemade);
        consider(gap, Fate::kKept);
      });
      ForEachMove(*fates, Fate::kRemade,
                  [&](size_t gap) { consider(gap, Fate::kKept); });
    }
  }

  bool IsTooDear(const Found& found) const {
    return found.cost > rehearsal_.cost();
  }

  void ClimbDown(Bytes start) {
    const Bytes rung = std::max<Bytes>(1, start / kTargets);
    for (Bytes target = start - rung; target > 0; target -= rung) {
      if (nodes_run_ > most_nodes_run_ / 2) break;
      // The cheapest that meets the target already, made cheaper; the dearest
      // that does not, brought down to it.
      auto at = found_.upper_bound(target);
      const bool met = at != found_.begin();
      std::vector<Fate> above;
      if (at != found_.end()) above = at->second.fates;
      if (met) {
        std::vector<Fate> fates = std::prev(at)->second.fates;
        Polish(target, &fates);
      }
      if (above.empty()) continue;
      if (Reach(target, &above)) {
        Polish(target, &above);
      } else if (!met) {
        break;
      }
    }
    // As low as it goes, in ever smaller steps.
    for (Bytes step = rung / 2; step > start / 4096 + 1;) {
      if (nodes_run_ > most_nodes_run_) return;
      if (IsTooDear(found_.begin()->second)) return;
      const Bytes target = found_.begin()->first - step;
      std::vector<Fate> fates = found_.begin()->second.fates;
      if (target > 0 && Reach(target, &fates)) {
        Polish(target, &fates);
      } else {
        step /= 2;
      }
    }
  }

  // A large step takes all the effort before the ladder ends. From the lowest that
  // was found so, further down by steps that are not thorough.
  void ClimbLazily(Bytes start) {
    most_nodes_run_ += static_cast<int64_t>(options_.effort * kMostNodesLazily);
    const Bytes rung = std::max<Bytes>(1, start / kTargets);
    for (Bytes target = start - rung; target > 0; target -= rung) {
      if (found_.begin()->first <= target) continue;
      std::vector<Fate> fates = found_.begin()->second.fates;
      if (!Reach(target, &fates, Greedy::kLazy)) return;
      Polish(target, &fates);
    }
  }

  // Where the price leaps from one bargain to the next, looks for some between,
  // at the highest leap first: just below the cheaper one, and halfway.
  void FillSteps(Bytes start) {
    std::set<Bytes> tried;
    for (int k = 0; k < kMostLeaps && nodes_run_ <= most_nodes_run_; ++k) {
      auto leap = found_.end();
      double highest = kLeap * rehearsal_.cost();
      for (auto at = found_.begin(); at != found_.end(); ++at) {
        const auto next = std::next(at);
        if (next == found_.end() || tried.contains(next->first) ||
            IsTooDear(next->second)) {
          continue;
        }
        const double height = at->second.cost - next->second.cost;
        if (height <= highest) continue;
        highest = height;
        leap = at;
      }
      if (leap == found_.end()) return;
      const Bytes low = leap->first;
      const Bytes high = std::next(leap)->first;
      const std::vector<Fate> from = std::next(leap)->second.fates;
      tried.insert(high);
      const Bytes rung = std::max<Bytes>(1, start / kTargets);
      for (const Bytes target : {high - 1, high - rung / 2, (low + high) / 2}) {
        if (target < low) continue;
        std::vector<Fate> fates = from;
        if (Reach(target, &fates)) Polish(target, &fates);
      }
    }
  }

  // A chain of equal pieces, with every number of borders there at a time: of many
  // pieces with every second number, or third, as far as the effort goes.
  void TryChain() {
    if (free_.size() < rehearsal_.gaps().size()) return;
    const std::optional<Chain> chain = FindChain(graph_, rehearsal_);
    if (!chain) return;
    const auto effort =
        static_cast<int64_t>(options_.effort * kMostNodesInChains);
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
      const Script script = chain->Again(places);
      if (options_.on_choice) options_.on_choice();
      if (!rehearsal_.Run(script)) continue;
      if (IsBargain(rehearsal_.peak(), rehearsal_.extra_cost())) {
        Remember(rehearsal_.peak(), {rehearsal_.extra_cost(), {}, script});
      }
    }
  }

  const Graph& graph_;
  Rehearsal& rehearsal_;
  const RecomputeSearchOptions& options_;
  int64_t most_nodes_run_;
  std::vector<size_t> free_;                  // gaps
  std::vector<std::vector<size_t>> classes_;  // of these
  std::vector<NodeId> full_times_;            // of the step as given
  std::map<Bytes, Found> found_;  // by peak; operations fall as it rises
  Outcome outcome_;               // of the latest try
  int64_t nodes_run_ = 0;
  int64_t nodes_untangling_ = 0;  // of these
};

}  // namespace

std::vector<FoundScript> SearchRecompute(
    const Graph& graph, Rehearsal& rehearsal,
    const RecomputeSearchOptions& options) {
  return Search(graph, rehearsal, options).Run();
}

}  // namespace stowage::fit
