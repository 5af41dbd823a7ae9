#include "planner/fit/recompute/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/op_def.h"
#include "ir/uses.h"
#include "planner/fit/min_cut.h"

namespace stowage::fit {

namespace {

constexpr size_t kMaxStretches = 64;  // in a piece
constexpr size_t kMinPieces = 3;

class ChainFinder {
 public:
  ChainFinder(const Graph& graph, const Simulation& simulation)
      : graph_(graph), simulation_(simulation), uses_(simulation.uses()) {}

  std::optional<Chain> Find() {
    FindBorders();
    if (borders_.size() < kMinPieces) return {};
    for (size_t k = 0; k < borders_.size(); ++k) digests_.push_back(Digest(k));
    const std::optional<Repeat> repeat = Longest();
    return repeat ? Make(*repeat) : std::nullopt;
  }

 private:
  // All that forward nodes after `node` read of those up to it.
  struct Border {
    ValueId value = 0;
    NodeId node = 0;
  };
  // Stretch k ends at border k: `pieces` times `stretches` of them, from `first`.
  struct Repeat {
    size_t first = 0, stretches = 1, pieces = 0;
    size_t covered() const { return stretches * pieces; }
  };

  bool IsForward(NodeId n) const {
    return graph_.node(n).phase == Phase::kForward;
  }

  void FindBorders() {
    // By node: how many values live on, read by forward nodes, and their sum, which
    // is the value where there is one.
    const size_t nodes = Index(graph_.num_nodes());
    std::vector<int64_t> count(nodes + 1, 0);
    std::vector<int64_t> sum(nodes + 1, 0);
    for (ValueId id = 0; id < graph_.num_values(); ++id) {
      if (graph_.value(id).is_leaf() || simulation_.root(id) != id) continue;
      const std::span<const NodeId> readers = uses_.forward_readers(id);
      if (readers.empty()) continue;
      const size_t from = Index(graph_.value(id).producer);
      count[from] += 1;
      sum[from] += id;
      count[Index(readers.back())] -= 1;
      sum[Index(readers.back())] -= id;
    }
    for (size_t n = 0; n < nodes; ++n) {
      if (n > 0) {
        count[n] += count[n - 1];
        sum[n] += sum[n - 1];
      }
      if (count[n] != 1) continue;
      const auto value = static_cast<ValueId>(sum[n]);
      if (!simulation_.is_candidate(value)) continue;
      if (!borders_.empty() && borders_.back().value == value) continue;
      borders_.push_back({value, static_cast<NodeId>(n)});
    }
  }

  NodeId Begin(size_t stretch) const {
    return stretch == 0 ? 0 : borders_[stretch - 1].node + 1;
  }

  // Equal for stretches that do the same: 0 where one may not be in a chain.
  uint64_t Digest(size_t stretch) const {
    Fnv1a hash;
    const NodeId begin = Begin(stretch);
    std::string text;
    for (NodeId n = begin; n <= borders_[stretch].node; ++n) {
      if (!IsForward(n)) return 0;
      const Node& node = graph_.node(n);
      text = StrCat(OpName(node.op), " ");
      for (const ValueId input : node.inputs) {
        // A leaf, the border before the stretch, or a leaf in its place.
        const ValueInfo& info = graph_.value(input);
        text += info.producer >= begin
                    ? StrCat(n - info.producer, ".", info.result, " ")
                    : StrCat(info.type.ToString(), " ");
      }
      hash.Update(text);
      for (const ValueId result : node.results) {
        hash.Update(graph_.value(result).type.ToString());
      }
    }
    return hash.digest() | 1;
  }

  // Of the longest, the one whose borders are smallest.
  std::optional<Repeat> Longest() const {
    std::optional<Repeat> best;
    for (size_t p = 1; p <= std::min(kMaxStretches, digests_.size() / 3); ++p) {
      size_t run = 0;
      for (size_t k = p; k <= digests_.size(); ++k) {
        const bool goes_on = k < digests_.size() && digests_[k] != 0 &&
                             digests_[k] == digests_[k - p];
        if (goes_on) {
          ++run;
          continue;
        }
        Consider(k - p - run, p, run + p, &best);
        run = 0;
      }
    }
    return best;
  }

  void Consider(size_t first, size_t stretches, size_t length,
                std::optional<Repeat>* best) const {
    if (length / stretches < kMinPieces) return;
    if (*best && length - length % stretches <= (*best)->covered()) return;
    const auto bytes = [&](const Repeat& repeat) {
      return simulation_.bytes(
          borders_[repeat.first + repeat.stretches - 1].value);
    };
    Repeat found{first, stretches, length / stretches};
    for (size_t by = 1; by < stretches; ++by) {
      const Repeat shifted{first + by, stretches, (length - by) / stretches};
      if (shifted.pieces >= kMinPieces && bytes(shifted) < bytes(found)) {
        found = shifted;
      }
    }
    *best = found;
  }

  // The nodes of the piece that what is wanted is made by, views left out.
  std::vector<NodeId> Makers(NodeId begin, NodeId end,
                             const std::vector<ValueId>& wanted) const {
    std::set<NodeId> makers;
    std::vector<ValueId> stack = wanted;
    while (!stack.empty()) {
      const NodeId n = graph_.value(stack.back()).producer;
      stack.pop_back();
      if (n == kNoNode || n < begin || n >= end) continue;
      if (!makers.insert(n).second) continue;
      const std::vector<ValueId>& inputs = graph_.node(n).inputs;
      stack.insert(stack.end(), inputs.begin(), inputs.end());
    }
    std::erase_if(makers, [&](NodeId n) { return simulation_.is_view(n); });
    return {makers.begin(), makers.end()};
  }

  // The first node behind forward that reads the value; kNoNode without one.
  NodeId FirstLater(ValueId value) const {
    const std::span<const NodeId> later = uses_.later_readers(value);
    return later.empty() ? kNoNode : later.front();
  }

  std::optional<Chain> Make(const Repeat& repeat) const {
    Chain chain;
    for (size_t k = 0; k < repeat.pieces; ++k) {
      const size_t from = repeat.first + k * repeat.stretches;
      const Border& last = borders_[from + repeat.stretches - 1];
      const NodeId begin = Begin(from);
      const NodeId end = last.node + 1;
      Chain::Piece piece{.to_border = Makers(begin, end, {last.value})};
      std::vector<NodeId> stages;
      if (from > 0) stages.push_back(FirstLater(borders_[from - 1].value));
      std::vector<ValueId> inner;
      for (NodeId n = begin; n < end; ++n) {
        for (const ValueId result : graph_.node(n).results) {
          if (result == last.value || !simulation_.is_candidate(result) ||
              !simulation_.is_saved(result)) {
            continue;
          }
          inner.push_back(result);
          stages.push_back(FirstLater(result));
        }
      }
      std::erase(stages, kNoNode);
      piece.to_inner = Makers(begin, end, inner);
      // Nothing has to be there for a first piece that starts from leaves.
      if (!stages.empty()) piece.stage = *std::ranges::min_element(stages);
      const bool is_wanted = piece.stage != kNoNode;
      if (k > 0 && (!is_wanted || (chain.pieces.back().stage != kNoNode &&
                                   piece.stage >= chain.pieces.back().stage))) {
        return {};
      }
      chain.pieces.push_back(std::move(piece));
    }
    const size_t end = repeat.first + repeat.covered();
    chain.last_stage = FirstLater(borders_[end - 1].value);
    if (chain.last_stage != kNoNode &&
        chain.last_stage >= chain.pieces.back().stage) {
      chain.last_stage = kNoNode;
    }
    return chain;
  }

  const Graph& graph_;
  const Simulation& simulation_;
  const Uses& uses_;
  std::vector<Border> borders_;
  std::vector<uint64_t> digests_;  // of the stretches that end at them
};

}  // namespace

Script Chain::Again(int64_t places) const {
  Script script;
  const std::vector<RevolveStep> steps = RevolveStepsAgain(states(), places);
  auto step = steps.begin();
  const auto run = [&](NodeId stage, const std::vector<NodeId>& nodes) {
    for (const NodeId n : nodes) script.push_back({stage, n});
  };
  for (int64_t k = static_cast<int64_t>(pieces.size()) - 1; k >= 0; --k) {
    const Piece& piece = pieces[Index(k)];
    for (; step != steps.end() && step->read == k; ++step) {
      run(piece.stage, pieces[Index(step->made - 1)].to_border);
    }
    if (Index(k) + 1 < pieces.size()) run(piece.stage, piece.to_inner);
  }
  return script;
}

int64_t Chain::NodesAgain(int64_t places) const {
  const auto border = static_cast<int64_t>(pieces.front().to_border.size());
  const auto inner = static_cast<int64_t>(pieces.front().to_inner.size());
  return (RevolveSteps(states(), places) - (states() - 1)) * border +
         (static_cast<int64_t>(pieces.size()) - 1) * inner;
}

std::optional<Chain> FindChain(const Graph& graph,
                               const Simulation& simulation) {
  return ChainFinder(graph, simulation).Find();
}

namespace {

// How many states can be read with `places`, none being made more than `times`
// times: beta(places, times), or `most` where it is more.
int64_t Reach(int64_t places, int64_t times, int64_t most) {
  const int64_t few = std::min(places, times);
  const int64_t many = std::max(places, times);
  double reach = 1;  // exact below 2^53, which is above any number of states
  for (int64_t k = 1; k <= few && reach <= static_cast<double>(most); ++k) {
    reach = reach * static_cast<double>(many + k) / static_cast<double>(k);
  }
  return reach > static_cast<double>(most) ? most : static_cast<int64_t>(reach);
}

// The only r with beta(places, r - 1) < states <= beta(places, r).
int64_t MostTimes(int64_t states, int64_t places) {
  int64_t times = 0;
  while (Reach(places, times, states) < states) ++times;
  return times;
}

}  // namespace

int64_t RevolveSteps(int64_t states, int64_t places) {
  STOWAGE_CHECK(states > 0 && places > 0);
  const int64_t times = MostTimes(states, places);
  if (times == 0) return 0;
  const int64_t all = times * states;
  return all - Reach(places + 1, times - 1, all);
}

std::vector<RevolveStep> RevolveStepsAgain(int64_t states, int64_t places) {
  STOWAGE_CHECK(states > 0 && places > 0);
  std::vector<RevolveStep> steps;
  // States first, ..., first + count - 1 are to be read, the last first; `first` is
  // there, and with it in `places` of them.
  struct Part {
    int64_t first, count, places;
    bool is_there;  // the states are being made for the first time
  };
  std::vector<Part> parts = {{0, states, places, true}};
  while (!parts.empty()) {
    const Part part = parts.back();
    parts.pop_back();
    if (part.count == 1) continue;
    // The next to keep, as far on as is best: what comes before it is made at most
    // one time fewer, what comes after it has one place fewer.
    const int64_t times = MostTimes(part.count, part.places);
    const int64_t next =
        std::min(Reach(part.places, times - 1, part.count),
                 part.count - Reach(part.places - 1, times - 1, part.count));
    for (int64_t k = 1; k <= next && !part.is_there; ++k) {
      steps.push_back({part.first + part.count - 1, part.first + k});
    }
    parts.push_back({part.first, next, part.places, false});
    parts.push_back(
        {part.first + next, part.count - next, part.places - 1, part.is_there});
  }
  return steps;
}

namespace {

// At which no byte is worth an operation.
constexpr double kPriceOfCheapBytes = 1e-9;

// At which any byte is worth all operations.
double PriceOfBytes(const Simulation& simulation) {
  return (1 + simulation.cost()) * 2;
}

}  // namespace

RecomputeBound::RecomputeBound(const Graph& graph, const Simulation& simulation)
    : graph_(graph), simulation_(simulation), uses_(simulation.uses()) {
  forced_ = FindForced(/*gradients=*/true);
}

bool RecomputeBound::IsChosen(ValueId id) const {
  return simulation_.root(id) == id && !graph_.value(id).is_leaf() &&
         !uses_.is_output(id);
}

// What waits while others run is there from its first node to its last; what a
// node wants for itself comes on top.
std::vector<Bytes> RecomputeBound::FindForced(bool gradients) const {
  struct Stay {
    NodeId first = 0;
    NodeId last = -1;
  };
  const NodeId end = graph_.num_nodes();
  std::vector<Stay> stays(Index(graph_.num_values()));
  std::vector<Bytes> change(Index(end) + 1, 0);
  const auto is_packed = [&](ValueId id) {
    const ValueInfo& info = graph_.value(id);
    return simulation_.root(id) == id &&
           (!info.is_leaf() || info.role == Role::kSaved);
  };
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    if (!is_packed(id)) continue;
    const NodeId producer = graph_.value(id).producer;
    Stay stay{.first = producer + 1, .last = uses_.last_reader(id)};
    // Until then, it may be made again when it is wanted.
    if (IsChosen(id) &&
        (gradients || graph_.node(producer).phase == Phase::kForward)) {
      stay.first = std::max(stay.first, simulation_.last_stage(producer));
    }
    if (uses_.is_output(id)) stay.last = end - 1;
    if (stay.first > stay.last) continue;
    stays[Index(id)] = stay;
    change[Index(stay.first)] += simulation_.bytes(id);
    change[Index(stay.last) + 1] -= simulation_.bytes(id);
  }
  std::vector<NodeId> counted(Index(graph_.num_values()), kNoNode);
  std::vector<Bytes> forced_at;
  Bytes waiting = 0;
  for (NodeId time = 0; time < end; ++time) {
    waiting += change[Index(time)];
    Bytes forced = waiting + simulation_.workspace(time);
    const auto count = [&](ValueId id) {
      const Stay& stay = stays[Index(id)];
      if (counted[Index(id)] == time || !is_packed(id) ||
          (stay.first <= time && time <= stay.last)) {
        return;
      }
      counted[Index(id)] = time;
      forced += simulation_.bytes(id);
    };
    const Node& node = graph_.node(time);
    const OpDef& def = GetOpDef(node.op);
    bool may_take_over = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      count(simulation_.root(node.inputs[i]));
      may_take_over |= def.may_overwrite_operand(i);
    }
    for (size_t r = may_take_over ? 1 : 0; r < node.results.size(); ++r) {
      count(node.results[r]);
    }
    forced_at.push_back(forced);
  }
  return forced_at;
}

// A view that nothing wants is not run, so that its operand need not be there.
Bytes RecomputeBound::MostForced(bool gradients) const {
  const std::vector<Bytes> forced = gradients ? forced_ : FindForced(false);
  Bytes most = 0;
  for (NodeId time = 0; time < graph_.num_nodes(); ++time) {
    if (!simulation_.is_view(time)) most = std::max(most, forced[Index(time)]);
  }
  return most;
}

// Vertices: 0 is what has to be had, 1 what is paid; then for every value
// "wanted" and for every node "runs again". An edge is paid when its tail holds
// and its head does not.
Tradeoff RecomputeBound::Cut(NodeId time, double cost_per_byte) const {
  const auto wanted = [&](ValueId id) { return 2 + id; };
  const auto again = [&](NodeId n) { return 2 + graph_.num_values() + n; };
  std::vector<uint8_t> is_read_now(Index(graph_.num_values()), 0);
  for (const ValueId input : graph_.node(time).inputs) {
    is_read_now[Index(simulation_.root(input))] = 1;
  }
  const auto is_chosen = [&](ValueId id) {
    return graph_.value(id).producer < time && IsChosen(id);
  };
  const auto may_run = [&](ValueId id) {
    return simulation_.last_stage(graph_.value(id).producer) > time;
  };
  const auto is_forced = [&](ValueId id) {
    return is_read_now[Index(id)] ||
           (uses_.last_reader(id) >= time && !may_run(id));
  };
  const auto price = [&](ValueId id) {
    return is_forced(id)
               ? 0.0
               : cost_per_byte * static_cast<double>(simulation_.bytes(id));
  };
  std::vector<ValueId> values;
  double total = 0;
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    if (!is_chosen(id)) continue;
    values.push_back(id);
    total += price(id) + simulation_.node_cost(graph_.value(id).producer);
  }
  constexpr double kMax = 1e17;
  const double scale = total > 0 ? kMax / total : 1;
  const auto capacity = [&](double cost) {
    return static_cast<int64_t>(std::floor(cost * scale));
  };

  MinCut network(2 + graph_.num_values() + graph_.num_nodes());
  NodeId previous = kNoNode;
  for (const ValueId id : values) {
    const NodeId producer = graph_.value(id).producer;
    network.AddEdge(wanted(id), again(producer), capacity(price(id)));
    if (uses_.last_reader(id) >= time) {
      network.AddEdge(0, wanted(id), MinCut::kInfinite);
    }
    if (producer == previous) continue;  // another result of the same node
    previous = producer;
    network.AddEdge(again(producer), 1,
                    may_run(id) ? capacity(simulation_.node_cost(producer))
                                : MinCut::kInfinite);
    for (const ValueId input : graph_.node(producer).inputs) {
      const ValueId root = simulation_.root(input);
      if (!is_chosen(root)) continue;
      network.AddEdge(again(producer), wanted(root), MinCut::kInfinite);
    }
  }
  network.Solve(0, 1);

  Tradeoff tradeoff;
  tradeoff.fates = simulation_.AsGiven();  // of what is not wanted any more
  previous = kNoNode;
  for (const ValueId id : values) {
    const NodeId producer = graph_.value(id).producer;
    const bool runs = network.is_source_side(again(producer));
    const bool stored = network.is_source_side(wanted(id)) && !runs;
    if (network.is_source_side(wanted(id)) && simulation_.is_candidate(id)) {
      // The gap that the time is in, or the last.
      const auto gaps = simulation_.gaps_of(id);
      size_t gap = 0;
      while (gap + 1 < gaps.size() && gaps[gap].end < time) ++gap;
      tradeoff.fates[simulation_.first_gap(id) + gap] =
          stored ? Fate::kKept : Fate::kRecomputed;
    }
    if (stored && !is_forced(id)) {
      tradeoff.stored += simulation_.bytes(id);
    }
    if (runs && producer != previous) {
      tradeoff.cost += simulation_.node_cost(producer);
    }
    previous = producer;
  }
  return tradeoff;
}

Bytes RecomputeBound::LeastStored(NodeId time) const {
  return Cut(time, PriceOfBytes(simulation_)).stored;
}

std::vector<Tradeoff> RecomputeBound::Tradeoffs(NodeId time) const {
  std::vector<Tradeoff> hull;
  hull.push_back(Cut(time, kPriceOfCheapBytes));
  std::vector<Tradeoff> ahead = {Cut(time, PriceOfBytes(simulation_))};
  while (!ahead.empty()) {
    const Tradeoff& left = hull.back();
    const Tradeoff& right = ahead.back();
    const auto bytes = static_cast<double>(left.stored - right.stored);
    const double cost = right.cost - left.cost;
    if (bytes > 0 && cost > 0) {
      const double slope = cost / bytes;
      Tradeoff middle = Cut(time, slope);
      const double on_line =
          left.cost + slope * static_cast<double>(left.stored);
      const double reached =
          middle.cost + slope * static_cast<double>(middle.stored);
      if (reached < on_line * (1 - 1e-9) && middle.stored < left.stored &&
          middle.stored > right.stored) {
        ahead.push_back(std::move(middle));
        continue;
      }
    }
    if (bytes > 0) hull.push_back(std::move(ahead.back()));
    ahead.pop_back();
  }
  return hull;
}

std::vector<NodeId> FullestTimes(const Simulation& simulation, int count) {
  const auto items = simulation.items();
  const auto live = simulation.live();
  const auto ran = std::ssize(items);
  const int64_t stretches = std::min<int64_t>(count, ran);
  std::vector<size_t> times;
  for (int64_t k = 0; k < stretches; ++k) {
    const auto fullest =
        std::max_element(live.begin() + ran * k / stretches,
                         live.begin() + ran * (k + 1) / stretches);
    times.push_back(static_cast<size_t>(fullest - live.begin()));
  }
  if (times.empty()) return {};
  std::iter_swap(times.begin(),
                 std::ranges::max_element(
                     times, {}, [&](size_t time) { return live[time]; }));
  std::vector<NodeId> nodes;
  for (const size_t time : times) nodes.push_back(items[time].stage);
  return nodes;
}

double LeastCost(const std::vector<Tradeoff>& tradeoffs, Bytes free) {
  if (free >= tradeoffs.front().stored) return tradeoffs.front().cost;
  for (size_t k = 1; k < tradeoffs.size(); ++k) {
    const Tradeoff& left = tradeoffs[k - 1];
    const Tradeoff& right = tradeoffs[k];
    if (free < right.stored) continue;
    const double part = static_cast<double>(left.stored - free) /
                        static_cast<double>(left.stored - right.stored);
    return left.cost + part * (right.cost - left.cost);
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace stowage::fit
