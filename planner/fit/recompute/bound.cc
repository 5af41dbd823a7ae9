#include "planner/fit/recompute/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "ir/op_def.h"
#include "planner/fit/min_cut.h"

namespace stowage::fit {
namespace {

// At which no byte is worth an operation.
constexpr double kPriceOfCheapBytes = 1e-9;

// At which any byte is worth all operations.
double PriceOfDearBytes(const Rehearsal& rehearsal) {
  return (1 + rehearsal.cost()) * 2;
}

}  // namespace

RecomputeBound::RecomputeBound(const Graph& graph, const Rehearsal& rehearsal)
    : graph_(graph), rehearsal_(rehearsal), uses_(rehearsal.uses()) {
  forced_ = FindForced(/*gradients=*/true);
}

bool RecomputeBound::IsChosen(ValueId id) const {
  return rehearsal_.root(id) == id && !graph_.value(id).is_leaf() &&
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
    return rehearsal_.root(id) == id &&
           (!info.is_leaf() || info.role == Role::kSaved);
  };
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    if (!is_packed(id)) continue;
    const NodeId producer = graph_.value(id).producer;
    Stay stay{.first = producer + 1, .last = uses_.last_reader(id)};
    // Until then, it may be made again when it is wanted.
    if (IsChosen(id) &&
        (gradients || graph_.node(producer).phase == Phase::kForward)) {
      stay.first = std::max(stay.first, rehearsal_.last_stage(producer));
    }
    if (uses_.is_output(id)) stay.last = end - 1;
    if (stay.first > stay.last) continue;
    stays[Index(id)] = stay;
    change[Index(stay.first)] += rehearsal_.bytes(id);
    change[Index(stay.last) + 1] -= rehearsal_.bytes(id);
  }
  std::vector<NodeId> counted(Index(graph_.num_values()), kNoNode);
  std::vector<Bytes> forced_at;
  Bytes waiting = 0;
  for (NodeId time = 0; time < end; ++time) {
    waiting += change[Index(time)];
    Bytes forced = waiting + rehearsal_.workspace(time);
    const auto count = [&](ValueId id) {
      const Stay& stay = stays[Index(id)];
      if (counted[Index(id)] == time || !is_packed(id) ||
          (stay.first <= time && time <= stay.last)) {
        return;
      }
      counted[Index(id)] = time;
      forced += rehearsal_.bytes(id);
    };
    const Node& node = graph_.node(time);
    const OpDef& def = GetOpDef(node.op);
    bool may_take_over = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      count(rehearsal_.root(node.inputs[i]));
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
    if (!rehearsal_.is_view(time)) most = std::max(most, forced[Index(time)]);
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
    is_read_now[Index(rehearsal_.root(input))] = 1;
  }
  const auto is_chosen = [&](ValueId id) {
    return graph_.value(id).producer < time && IsChosen(id);
  };
  const auto may_run = [&](ValueId id) {
    return rehearsal_.last_stage(graph_.value(id).producer) > time;
  };
  const auto is_forced = [&](ValueId id) {
    return is_read_now[Index(id)] ||
           (uses_.last_reader(id) >= time && !may_run(id));
  };
  const auto price = [&](ValueId id) {
    return is_forced(id)
               ? 0.0
               : cost_per_byte * static_cast<double>(rehearsal_.bytes(id));
  };
  std::vector<ValueId> values;
  double total = 0;
  for (ValueId id = 0; id < graph_.num_values(); ++id) {
    if (!is_chosen(id)) continue;
    values.push_back(id);
    total += price(id) + rehearsal_.node_cost(graph_.value(id).producer);
  }
  constexpr double kMost = 1e17;
  const double scale = total > 0 ? kMost / total : 1;
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
                    may_run(id) ? capacity(rehearsal_.node_cost(producer))
                                : MinCut::kInfinite);
    for (const ValueId input : graph_.node(producer).inputs) {
      const ValueId root = rehearsal_.root(input);
      if (!is_chosen(root)) continue;
      network.AddEdge(again(producer), wanted(root), MinCut::kInfinite);
    }
  }
  network.Solve(0, 1);

  Tradeoff tradeoff;
  tradeoff.fates = rehearsal_.AsGiven();  // of what is not wanted any more
  previous = kNoNode;
  for (const ValueId id : values) {
    const NodeId producer = graph_.value(id).producer;
    const bool runs = network.is_source_side(again(producer));
    const bool stored = network.is_source_side(wanted(id)) && !runs;
    if (network.is_source_side(wanted(id)) && rehearsal_.is_candidate(id)) {
      // The gap that the time is in, or the last.
      const auto gaps = rehearsal_.gaps_of(id);
      size_t gap = 0;
      while (gap + 1 < gaps.size() && gaps[gap].end < time) ++gap;
      tradeoff.fates[rehearsal_.first_gap(id) + gap] =
          stored ? Fate::kKept : Fate::kRemade;
    }
    if (stored && !is_forced(id)) {
      tradeoff.stored += rehearsal_.bytes(id);
    }
    if (runs && producer != previous) {
      tradeoff.cost += rehearsal_.node_cost(producer);
    }
    previous = producer;
  }
  return tradeoff;
}

Bytes RecomputeBound::LeastStored(NodeId time) const {
  return Cut(time, PriceOfDearBytes(rehearsal_)).stored;
}

std::vector<Tradeoff> RecomputeBound::Tradeoffs(NodeId time) const {
  std::vector<Tradeoff> hull;
  hull.push_back(Cut(time, kPriceOfCheapBytes));
  std::vector<Tradeoff> ahead = {Cut(time, PriceOfDearBytes(rehearsal_))};
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

std::vector<NodeId> FullestTimes(const Rehearsal& rehearsal, int count) {
  const auto items = rehearsal.items();
  const auto live = rehearsal.live();
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
