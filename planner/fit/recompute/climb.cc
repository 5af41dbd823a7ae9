#include "planner/fit/recompute/climb.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/hash.h"
#include "ir/op_def.h"
#include "planner/fit/recompute/chain.h"

namespace stowage::fit {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 1099511628211u;
}

uint64_t HashOf(const std::vector<Fate>& fates) {
  uint64_t hash = 0;
  size_t i = 0;
  for (; i + sizeof hash <= fates.size(); i += sizeof hash) {
    uint64_t word;
    std::memcpy(&word, fates.data() + i, sizeof word);
    hash = Mix(hash, word);
  }
  for (; i < fates.size(); ++i) {
    hash = Mix(hash, static_cast<uint64_t>(fates[i]));
  }
  return hash;
}

constexpr size_t kMaxTried = 200'000;  // candidates, of some tens of bytes each

constexpr int kDistance =
    2;  // of nodes that two members of a class have in common

constexpr double kMinLeap = 0.01;  // as a share of the step's operations
constexpr int kMaxLeaps = 100;
constexpr double kMinCostToRefill = 0.03;  // likewise
constexpr size_t kMaxTangled = 5;
constexpr int64_t kMaxNodesUntangling = 3'000'000;

using KnownWorths = std::map<std::pair<size_t, Fate>, double>;

double WorthOf(const KnownWorths& known, size_t gap, Fate fate) {
  const auto at = known.find({gap, fate});
  return at != known.end() ? at->second
                           : std::numeric_limits<double>::infinity();
}

constexpr size_t kStrides[] = {0, 2, 3, 4, 6};
// Below this share of the step's operations, moves with a small last worth are not tried again;
// above, all moves are tried each time.
constexpr double kThoroughCost = 0.03;
// The factor by which the worth of a move may grow while it is not tried.
constexpr double kMaxGrowth = 4;
constexpr double kMinCostToFill = 0.01;

}  // namespace

bool Frontier::Try(const std::vector<Fate>& fates) {
  return Try(fates, /*is_base=*/false);
}

bool Frontier::TryBase(const std::vector<Fate>& fates) {
  return Try(fates, /*is_base=*/true);
}

bool Frontier::Try(const std::vector<Fate>& fates, bool is_base) {
  if (is_spent()) return false;
  if (on_try_) on_try_();
  const bool runs =
      is_base ? simulation_.RunBase(fates) : simulation_.Run(fates);
  Tried tried{.outcome = {}, .nodes = -1};
  if (runs) {
    tried = {{simulation_.peak(), simulation_.extra_cost()},
             static_cast<int64_t>(simulation_.items().size())};
  }
  if (tried_.size() < kMaxTried) tried_.try_emplace(HashOf(fates), tried);
  if (!runs) return false;
  nodes_ += tried.nodes;
  latest_ = tried.outcome;
  const auto next = points_.upper_bound(latest_.peak);
  if (next == points_.begin() || std::prev(next)->second.cost > latest_.cost) {
    Add(latest_.peak, {latest_.cost, fates, {}});
  }
  return true;
}

bool Frontier::TryAgain(const std::vector<Fate>& fates) {
  if (is_spent()) return false;
  const auto known = tried_.find(HashOf(fates));
  if (known == tried_.end()) return Try(fates);
  if (on_try_) on_try_();
  const Tried& tried = known->second;
  if (tried.nodes < 0) return false;
  nodes_ += tried.nodes;
  latest_ = tried.outcome;
  return true;
}

bool Frontier::Try(const Script& script) {
  if (on_try_) on_try_();
  if (!simulation_.Run(script)) return false;
  latest_ = {simulation_.peak(), simulation_.extra_cost()};
  Add(latest_.peak, {latest_.cost, {}, script});
  return true;
}

void Frontier::Add(Bytes peak, Point point) {
  auto next = points_.upper_bound(peak);
  if (next != points_.begin() && std::prev(next)->second.cost <= point.cost) {
    return;
  }
  while (next != points_.end() && next->second.cost >= point.cost) {
    next = points_.erase(next);
  }
  points_.insert_or_assign(peak, std::move(point));
}

double Frontier::Excess(Bytes target) const {
  double sum = 0;
  for (const Bytes live : simulation_.live()) {
    if (live > target) sum += static_cast<double>(live - target);
  }
  return sum;
}

double Frontier::Worth(const Outcome& before, double excess,
                       Bytes target) const {
  const double min_cost = 1e-9 * simulation_.cost() + 1;
  const double gain = excess - Excess(target);
  return std::max(gain / std::max(latest_.cost - before.cost, min_cost), 0.0);
}

std::vector<std::vector<size_t>> FindClasses(const Graph& graph,
                                             const Simulation& simulation,
                                             std::span<const size_t> gaps) {
  std::vector<uint64_t> hash(Index(graph.num_values()));
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const ValueInfo& info = graph.value(id);
    Fnv1a h;
    h.Update(info.type.ToString());
    h.Update(info.is_leaf() ? RoleName(info.role)
                            : OpName(graph.node(info.producer).op));
    hash[Index(id)] = Mix(h.digest(), static_cast<uint64_t>(info.result));
  }
  for (int distance = 0; distance < kDistance; ++distance) {
    std::vector<uint64_t> next = hash;
    for (const Node& node : graph.nodes()) {
      uint64_t inputs = 7;
      for (const ValueId input : node.inputs) {
        inputs = Mix(inputs, hash[Index(input)]);
      }
      for (const ValueId result : node.results) {
        next[Index(result)] = Mix(next[Index(result)], inputs);
        for (const ValueId input : node.inputs) {
          if (!graph.value(input).is_leaf()) {
            next[Index(input)] += hash[Index(result)] * 31;
          }
        }
      }
    }
    hash = std::move(next);
  }
  std::vector<std::vector<size_t>> classes;
  std::map<uint64_t, size_t> index;
  for (const size_t gap : gaps) {
    const ValueId id = simulation.gaps()[gap].value;
    const uint64_t key = Mix(hash[Index(id)], gap - simulation.first_gap(id));
    const auto [entry, is_new] = index.try_emplace(key, classes.size());
    if (is_new) classes.emplace_back();
    classes[entry->second].push_back(gap);
  }
  return classes;
}

// Which moves are tried before the best is made: all; or those that were worth more than
// the best of now when they were tried last, since as a rule a move is worth less once
// others are made (Minoux 1978, "Accelerated greedy algorithms for maximizing submodular
// set functions").
bool Climb::Reach(Bytes target, std::vector<Fate>* fates, Greedy greedy) {
  if (!frontier_.TryBase(*fates)) return false;
  KnownWorths known;
  while (frontier_.latest().peak > target) {
    const Frontier::Outcome before = frontier_.latest();
    const double excess = frontier_.Excess(target);
    std::vector<Move> moves;
    const auto add = [&](size_t gap, Fate fate) {
      moves.push_back({gap, fate, WorthOf(known, gap, fate)});
    };
    ForEachMove(*fates, Fate::kKept,
                [&](size_t gap) { add(gap, Fate::kRecomputed); });
    for (const Fate fate : {Fate::kRecomputed, Fate::kRecomputedLate}) {
      ForEachMove(*fates, fate, [&](size_t gap) {
        add(gap, Fate::kRecomputedEachTime);
        add(gap, Fate::kKept);
      });
    }
    std::ranges::stable_sort(moves, std::greater(), &Move::worth);
    std::optional<Move> best;
    for (Move move : moves) {
      if (best && move.worth <= best->worth) break;
      const Fate old = std::exchange((*fates)[move.gap], move.fate);
      move.worth =
          frontier_.Try(*fates) ? frontier_.Worth(before, excess, target) : 0;
      (*fates)[move.gap] = old;
      if (greedy == Greedy::kLazy) known[{move.gap, move.fate}] = move.worth;
      if (move.worth > (best ? best->worth : 0)) best = move;
    }
    if (best) {
      (*fates)[best->gap] = best->fate;
    } else if (!Untangle(target, fates)) {
      return false;
    }
    if (!frontier_.TryBase(*fates)) return false;
  }
  return true;
}

// The node of the graph at whose time the peak is.
NodeId Climb::FullestStage() const {
  const auto live = simulation_.live();
  const auto fullest =
      static_cast<size_t>(std::ranges::max_element(live) - live.begin());
  const auto items = simulation_.items();
  return items[std::min(fullest, items.size() - 1)].stage;
}

// The gaps around the stage whose values are saved, and are read or produced by the nodes
// that run for the stage: the largest values first.
std::vector<size_t> Climb::Tangle(NodeId stage) const {
  std::set<ValueId> values;
  for (const Simulation::Item& item : simulation_.items()) {
    if (item.stage != stage) continue;
    const Node& node = graph_.node(item.node);
    for (const ValueId id : node.inputs) values.insert(simulation_.root(id));
    values.insert(node.results.begin(), node.results.end());
  }
  std::vector<size_t> tangle;
  for (const std::vector<size_t>& members : classes_) {
    for (const size_t gap : members) {
      const Gap& g = simulation_.gaps()[gap];
      if (g.begin <= stage && stage <= g.end && values.contains(g.value) &&
          simulation_.is_saved(g.value)) {
        tangle.push_back(gap);
      }
    }
  }
  std::ranges::sort(tangle);
  std::ranges::stable_sort(tangle, std::greater(), [&](size_t gap) {
    return simulation_.bytes(simulation_.gaps()[gap].value);
  });
  tangle.resize(std::min(tangle.size(), kMaxTangled));
  return tangle;
}

// The fates with a gap's value recomputed each time, and with it all that it is then
// recomputed from, which would otherwise stay in its place.
std::vector<Fate> Climb::WithChainEachTime(std::vector<Fate> fates,
                                           size_t gap) const {
  const Gap& dropped = simulation_.gaps()[gap];
  fates[gap] = Fate::kRecomputedEachTime;
  std::vector<ValueId> chain = {dropped.value};
  while (!chain.empty()) {
    const Node& node = graph_.node(graph_.value(chain.back()).producer);
    chain.pop_back();
    for (const ValueId input : node.inputs) {
      const ValueId root = simulation_.root(input);
      const std::span<const Gap> gaps = simulation_.gaps_of(root);
      for (size_t k = 0; k < gaps.size(); ++k) {
        Fate& fate = fates[simulation_.first_gap(root) + k];
        if (fate != Fate::kRecomputed || gaps[k].end <= dropped.begin ||
            gaps[k].begin >= dropped.end) {
          continue;
        }
        fate = Fate::kRecomputedEachTime;
        chain.push_back(root);
      }
    }
  }
  return fates;
}

// Where no single change helps, several at once may: a value that was recomputed for two
// readers is kept between them once its operands are not; dropping a value frees bytes only
// if its operands do not take them. Tries all fates of the values in the tangle at the
// peak, and the chains of the values kept across it.
bool Climb::Untangle(Bytes target, std::vector<Fate>* fates) {
  if (nodes_untangling_ > kMaxNodesUntangling || !frontier_.TryBase(*fates)) {
    return false;
  }
  const int64_t nodes = frontier_.nodes();
  const Frontier::Outcome before = frontier_.latest();
  const double excess = frontier_.Excess(target);
  const NodeId stage = FullestStage();
  const std::vector<size_t> tangle = Tangle(stage);
  double best_worth = 0;
  std::vector<Fate> best;
  const auto consider = [&](const std::vector<Fate>& trial) {
    if (!frontier_.Try(trial)) return;
    const double worth = frontier_.Worth(before, excess, target);
    if (worth > best_worth) {
      best_worth = worth;
      best = trial;
    }
  };
  constexpr Fate kFates[] = {Fate::kKept, Fate::kRecomputed,
                             Fate::kRecomputedEachTime};
  size_t combinations = 1;
  for (size_t k = 0; k < tangle.size(); ++k) combinations *= std::size(kFates);
  std::vector<Fate> trial = *fates;
  for (size_t combination = 0; combination < combinations; ++combination) {
    size_t rest = combination;
    for (const size_t gap : tangle) {
      trial[gap] = kFates[rest % std::size(kFates)];
      rest /= std::size(kFates);
    }
    consider(trial);
  }
  ForEachMove(*fates, Fate::kKept, [&](size_t gap) {
    const Gap& g = simulation_.gaps()[gap];
    if (g.begin >= stage || g.end <= stage) return;
    consider(WithChainEachTime(*fates, gap));
  });
  nodes_untangling_ += frontier_.nodes() - nodes;
  if (best.empty()) return false;
  *fates = std::move(best);
  return true;
}

// Keeps values again where the target allows it and that saves operations, in the order of
// the classes.
void Climb::Polish(Bytes target, std::vector<Fate>* fates) {
  if (!frontier_.TryBase(*fates)) return;
  double min_cost = frontier_.latest().cost;
  bool changed = true;
  while (changed) {
    changed = false;
    const auto consider = [&](size_t gap, Fate fate) {
      const Fate old = (*fates)[gap];
      if (old == fate) return;
      (*fates)[gap] = fate;
      if (frontier_.TryAgain(*fates) && frontier_.latest().peak <= target &&
          frontier_.latest().cost < min_cost) {
        min_cost = frontier_.latest().cost;
        changed = true;
      } else {
        (*fates)[gap] = old;
      }
    };
    ForEachMove(*fates, Fate::kRecomputedEachTime, [&](size_t gap) {
      consider(gap, Fate::kRecomputed);
      consider(gap, Fate::kKept);
    });
    for (const Fate fate : {Fate::kRecomputedLate, Fate::kRecomputed}) {
      ForEachMove(*fates, fate,
                  [&](size_t gap) { consider(gap, Fate::kKept); });
    }
  }
}

void Climb::KeepBest(Bytes target, std::vector<Fate>* fates) {
  KnownWorths known;  // operations saved
  while (frontier_.TryBase(*fates)) {
    const double before = frontier_.latest().cost;
    std::vector<Move> moves;
    const auto add = [&](size_t gap, Fate fate) {
      moves.push_back({gap, fate, WorthOf(known, gap, fate)});
    };
    ForEachMove(*fates, Fate::kRecomputedEachTime, [&](size_t gap) {
      if (simulation_.stays_from(simulation_.gaps()[gap].value) > 0) {
        add(gap, Fate::kRecomputedLate);
      }
      add(gap, Fate::kRecomputed);
      add(gap, Fate::kKept);
    });
    ForEachMove(*fates, Fate::kRecomputedLate, [&](size_t gap) {
      add(gap, Fate::kRecomputed);
      add(gap, Fate::kKept);
    });
    ForEachMove(*fates, Fate::kRecomputed,
                [&](size_t gap) { add(gap, Fate::kKept); });
    std::ranges::stable_sort(moves, std::greater(), &Move::worth);
    std::optional<Move> best;
    for (Move move : moves) {
      if (move.worth <= (best ? best->worth : 0)) break;
      const Fate old = std::exchange((*fates)[move.gap], move.fate);
      const bool fits =
          frontier_.TryAgain(*fates) && frontier_.latest().peak <= target;
      move.worth = fits ? before - frontier_.latest().cost : 0;
      (*fates)[move.gap] = old;
      known[{move.gap, move.fate}] = move.worth;
      if (move.worth > (best ? best->worth : 0)) best = move;
    }
    if (!best) return;
    (*fates)[best->gap] = best->fate;
  }
}

void Climb::Down(Bytes start) {
  const Bytes rung = std::max<Bytes>(1, start / kTargets);
  const auto& points = frontier_.points();
  for (Bytes target = start - rung; target > 0; target -= rung) {
    if (frontier_.nodes() > frontier_.max_nodes() / 2) break;
    // The cheapest point that meets the target already is made cheaper; the most expensive
    // that does not is brought down to it.
    auto at = points.upper_bound(target);
    const bool met = at != points.begin();
    std::vector<Fate> above;
    if (at != points.end()) above = at->second.fates;
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
  for (Bytes step = rung / 2; step > start / 4096 + 1;) {
    if (frontier_.is_spent()) return;
    if (IsTooExpensive(points.begin()->second.cost)) return;
    const Bytes target = points.begin()->first - step;
    std::vector<Fate> fates = points.begin()->second.fates;
    if (target > 0 && Reach(target, &fates)) {
      Polish(target, &fates);
    } else {
      step /= 2;
    }
  }
}

void Climb::Lazily(Bytes start) {
  const Bytes rung = std::max<Bytes>(1, start / kTargets);
  for (Bytes target = start - rung; target > 0; target -= rung) {
    const auto& [peak, lowest] = *frontier_.points().begin();
    if (peak <= target) continue;
    std::vector<Fate> fates = lowest.fates;
    if (!Reach(target, &fates, Greedy::kLazy)) return;
    Polish(target, &fates);
  }
}

void Climb::FillSteps(Bytes start) {
  const auto& points = frontier_.points();
  const Bytes rung = std::max<Bytes>(1, start / kTargets);
  std::set<Bytes> tried;
  for (int k = 0; k < kMaxLeaps && !frontier_.is_spent(); ++k) {
    auto leap = points.end();
    double highest = kMinLeap * simulation_.cost();
    for (auto at = points.begin(); at != points.end(); ++at) {
      const auto next = std::next(at);
      if (next == points.end() || tried.contains(next->first) ||
          IsTooExpensive(next->second.cost)) {
        continue;
      }
      const double height = at->second.cost - next->second.cost;
      if (height <= highest) continue;
      highest = height;
      leap = at;
    }
    if (leap == points.end()) return;
    const Bytes low = leap->first;
    const Bytes high = std::next(leap)->first;
    const std::vector<Fate> from = std::next(leap)->second.fates;
    tried.insert(high);
    for (const Bytes target : {high - 1, high - rung / 2, (low + high) / 2}) {
      if (target < low) continue;
      std::vector<Fate> fates = from;
      if (Reach(target, &fates)) Polish(target, &fates);
    }
  }
}

void Climb::RefillPoints(Bytes start) {
  std::vector<std::pair<Bytes, std::vector<Fate>>> points;
  for (const auto& [peak, point] : frontier_.points()) {
    const bool is_cheap = point.cost <= kMinCostToRefill * simulation_.cost();
    if (is_cheap || IsTooExpensive(point.cost)) continue;
    // The lowest stays as it is: a cheaper point of that peak may be packed less well, and
    // no other point could stand in for it.
    const Bytes last = points.empty() ? frontier_.points().begin()->first
                                      : points.back().first;
    if (peak >= last + start / kTargets / 2) {
      points.emplace_back(peak, point.fates);
    }
  }
  for (auto& [peak, fates] : points) KeepBest(peak, &fates);
}

ClassClimb::ClassClimb(const Graph& graph, Simulation& simulation,
                       const std::vector<std::vector<size_t>>& classes,
                       Frontier& frontier, Climb& climb)
    : graph_(graph),
      simulation_(simulation),
      classes_(classes),
      frontier_(frontier),
      climb_(climb) {
  FindLateValues();
}

void ClassClimb::FindLateValues() {
  const std::optional<Chain> chain = FindChain(graph_, simulation_);
  if (!chain) return;
  std::vector<NodeId> stays_from(Index(graph_.num_values()), 0);
  for (const Chain::Piece& piece : chain->pieces) {
    const NodeId last = piece.to_border.back();
    for (const auto* nodes : {&piece.to_border, &piece.to_inner}) {
      for (const NodeId node : *nodes) {
        if (node == last) continue;
        for (const ValueId id : graph_.node(node).results) {
          stays_from[Index(id)] = piece.stage;
        }
      }
    }
  }
  simulation_.SetStaysFrom(std::move(stays_from));
}

// How the value of a gap is recomputed for all readers but those before its piece's.
Fate ClassClimb::Once(size_t gap) const {
  const ValueId id = simulation_.gaps()[gap].value;
  return simulation_.stays_from(id) > 0 ? Fate::kRecomputedLate
                                        : Fate::kRecomputed;
}

// All moves of the classes that hold at least `min_bytes`, and that a later node reads.
void ClassClimb::FindMoves(Bytes min_bytes) {
  moves_.clear();
  for (size_t place = 0; place < classes_.size(); ++place) {
    const auto members = static_cast<Bytes>(classes_[place].size());
    const size_t first = classes_[place].front();
    const Gap& gap = simulation_.gaps()[first];
    if (gap.end == graph_.num_nodes() ||
        simulation_.bytes(gap.value) * members < min_bytes) {
      continue;
    }
    for (const Fate fate : {Once(first), Fate::kRecomputedEachTime}) {
      for (const size_t stride : kStrides) {
        if (stride > classes_[place].size()) break;
        moves_.push_back({moves_.size(), place, fate, stride,
                          std::numeric_limits<double>::infinity()});
      }
    }
  }
}

std::vector<Fate> ClassClimb::With(std::vector<Fate> fates,
                                   const Move& move) const {
  const std::vector<size_t>& members = classes_[move.place];
  for (size_t k = 0; k < members.size(); ++k) {
    const bool kept =
        move.stride > 0 && (members.size() - k) % move.stride == 0;
    fates[members[k]] = kept ? Fate::kKept : move.fate;
  }
  return fates;
}

bool ClassClimb::Reach(Bytes target, std::vector<Fate>* fates) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  if (!frontier_.TryBase(*fates)) return false;
  while (frontier_.latest().peak > target) {
    const Frontier::Outcome before = frontier_.latest();
    const double excess = frontier_.Excess(target);
    if (before.cost > kThoroughCost * simulation_.cost()) {
      for (Move& move : moves_) move.worth = kUnknown;
    }
    std::vector<Move> moves = moves_;
    std::ranges::stable_sort(moves, std::greater(), &Move::worth);
    std::optional<Move> best;
    bool tried_all = true;
    for (const Move& move : moves) {
      if (move.worth != kUnknown) tried_all = false;
      if (move.worth * kMaxGrowth <= (best ? best->worth : 0)) break;
      const std::vector<Fate> trial = With(*fates, move);
      double& worth = moves_[move.index].worth;
      worth = trial != *fates && frontier_.Try(trial)
                  ? frontier_.Worth(before, excess, target)
                  : 0;
      if (worth > (best ? best->worth : 0)) best = moves_[move.index];
    }
    if (best) {
      *fates = With(*fates, *best);
    } else if (tried_all || frontier_.is_spent()) {
      return false;
    } else {
      for (Move& move : moves_) move.worth = kUnknown;
    }
    if (!frontier_.TryBase(*fates)) return false;
  }
  return true;
}

void ClassClimb::Down(Bytes start, std::vector<Fate> given) {
  const Bytes rung = std::max<Bytes>(1, start / kTargets / 2);
  FindMoves(/*min_bytes=*/rung / 16);
  std::vector<Fate> fates = std::move(given);
  for (size_t gap = 0; gap < fates.size(); ++gap) {
    if (fates[gap] == Fate::kRecomputed) fates[gap] = Once(gap);
  }
  for (Bytes target = start - rung; target > 0; target -= rung) {
    if (!Reach(target, &fates)) return;
    if (frontier_.latest().cost < kMinCostToFill * simulation_.cost()) {
      continue;
    }
    std::vector<Fate> refilled = fates;
    climb_.KeepBest(target, &refilled);
  }
}

}  // namespace stowage::fit
