#include "planner/fit/grid.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/index.h"
#include "base/parallel.h"
#include "ir/bodies.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan.h"

namespace stowage::fit {
namespace {

constexpr size_t kStateSteps = 16;  // of a frontier, from no state to all

// Bytes that the first of `states` leave free at most: of the arena's, where
// slots are aligned.
Bytes SlotsOf(std::span<const Offloadable> states, Bytes alignment) {
  Bytes sum = 0;
  for (const Offloadable& state : states) {
    sum += AlignUp(state.bytes, alignment);
  }
  return sum;
}

// What variants prepare shares nothing among them: all at once.
Status InParallel(const std::vector<Variant*>& variants,
                  Status (Variant::*prepare)()) {
  std::vector<Status> statuses(variants.size());
  ForEachInParallel(variants.size(),
                    [&](size_t k) { statuses[k] = (variants[k]->*prepare)(); });
  for (const Status& status : statuses) {
    STOWAGE_RETURN_IF_ERROR(status);
  }
  return {};
}

// The variants by their bounds, the lowest first; bounds take time, too.
template <typename T>
using ByBound = std::vector<std::pair<T, Variant*>>;

template <typename T, typename BoundFn>
Result<ByBound<T>> SortByBound(const std::vector<Variant*>& variants,
                               const BoundFn& bound) {
  std::vector<std::optional<Result<T>>> bounds(variants.size());
  ForEachInParallel(variants.size(),
                    [&](size_t k) { bounds[k].emplace(bound(*variants[k])); });
  ByBound<T> sorted;
  for (size_t k = 0; k < variants.size(); ++k) {
    STOWAGE_ASSIGN_OR_RETURN(const T least, *bounds[k]);
    sorted.emplace_back(least, variants[k]);
  }
  std::ranges::stable_sort(sorted, {}, &std::pair<T, Variant*>::first);
  return sorted;
}

// The same way with bodies as low as they get; of which nothing is known where they keep
// something on the host: what runs again does not wait.
InsideWay Lowest(std::span<const Way> ways, const Way& way, Share share) {
  InsideWay lowest = way.first;
  if (share.inside) return lowest;
  for (const auto& [inside, pieces] : ways) {
    if (pieces == way.second && inside.trips == lowest.trips) {
      lowest = std::max(lowest, inside);
    }
  }
  return lowest;
}

// As many as are searched at once, from `first`.
template <typename T>
std::span<T> Part(std::span<T> all, size_t first) {
  return all.subspan(first, std::min(ParallelParts(), all.size() - first));
}

}  // namespace

// Where states are given, they stay where they are.
std::vector<Offloadable> Grid::Movable(const Graph& graph) const {
  std::vector<Offloadable> all = FindOffloadable(graph);
  const std::optional<WeightLayout>& given = options_.plan.weights;
  if (given && given->state_bytes() + given->host_state_bytes() > 0) {
    std::erase_if(all, &Offloadable::is_state);
  }
  return all;
}

Result<const Grid::Sample*> Grid::GetSample(int64_t pieces) {
  const auto at = samples_.find(pieces);
  if (at != samples_.end()) return &at->second;
  Sample sample;
  STOWAGE_ASSIGN_OR_RETURN(sample.step, build_(pieces, Sampling::kOneForAll));
  sample.movable = Movable(sample.step.graph);
  return &samples_.emplace(pieces, std::move(sample)).first->second;
}

// `graph` with its trips made again in a way that is not to keep them.
Result<RemadeTrips> Grid::WithTripsAgain(int64_t pieces, const Graph& graph,
                                         Trips trips) const {
  const std::vector<std::string> kept = WithNodesThatMake(
      graph, NamesInPieces(graph, options_.recompute.always_kept, pieces));
  TripOptions options = {.kept = kept};
  if (trips == Trips::kInSegments) options.segment.reset();
  return RemakeTrips(graph, options);
}

Result<std::unique_ptr<Variant>> Grid::MakeVariant(int64_t pieces, Share share,
                                                   InsideWay inside) {
  if (options_.recompute.on_choice) options_.recompute.on_choice();
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample, GetSample(pieces));
  const BodyLevel* level = nullptr;
  if (inside.level > 0) {
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<BodyLevel>* const levels,
                             Levels(pieces, inside.trips));
    level = &levels->at(inside.level - 1);
  }
  const auto change = [=, this](PiecedStep& step) -> Result<Variant::InBodies> {
    Variant::InBodies in_bodies;
    if (inside.trips != Trips::kKept) {
      STOWAGE_ASSIGN_OR_RETURN(
          RemadeTrips made, WithTripsAgain(pieces, step.graph, inside.trips));
      step.graph = std::move(made.graph);
      in_bodies.loops = std::move(made.loops);
      if (!in_bodies.loops.empty()) {
        for (NodeId& node : step.begins) node = made.begins[Index(node)];
      }
    }
    if (level != nullptr) {
      STOWAGE_ASSIGN_OR_RETURN(
          LoweredBodies lowered,
          LowerBodies(step.graph, *level, options_.recompute.cost));
      step.graph = std::move(lowered.graph);
      in_bodies.nodes = std::move(lowered.nodes);
    }
    if (share.inside) {
      STOWAGE_ASSIGN_OR_RETURN(step.graph, OffloadInBodies(step.graph));
    }
    if (share.states == 0 && share.halves == 0) return in_bodies;
    const std::vector<Offloadable> all = Movable(step.graph);
    STOWAGE_ASSIGN_OR_RETURN(
        step.graph,
        Offload(step.graph, Select(all, share, pieces), step.begins));
    return in_bodies;
  };
  return Variant::Make(pieces, sample->step, build_, change, options_);
}

Result<Variant*> Grid::Get(int64_t pieces, Share share, InsideWay inside) {
  // All pieces are alike: one half is as good as two.
  if (pieces > 1 && share.halves > 0) share.halves = 2;
  if (share.inside) {
    STOWAGE_ASSIGN_OR_RETURN(Variant* const unmoved, Get(pieces, {}, inside));
    share.inside = WaitsInBodies(unmoved->sample());
  }
  std::unique_ptr<Variant>& variant = variants_[{pieces, share, inside}];
  if (!variant) {
    STOWAGE_ASSIGN_OR_RETURN(variant, MakeVariant(pieces, share, inside));
  }
  return variant.get();
}

// Those that differ: there are loops for them.
Result<std::vector<Trips>> Grid::TripsToTry(int64_t pieces) {
  if (!trips_.empty()) return trips_;
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample, GetSample(pieces));
  std::vector<Trips> all = {Trips::kKept};
  for (const Trips trips : {Trips::kEach, Trips::kInSegments}) {
    STOWAGE_ASSIGN_OR_RETURN(const RemadeTrips made,
                             WithTripsAgain(pieces, sample->step.graph, trips));
    const bool is_new =
        std::ranges::any_of(made.loops, [&](const RemadeLoop& loop) {
          return trips == Trips::kEach || loop.segment > 1;
        });
    if (is_new) all.push_back(trips);
  }
  return trips_ = std::move(all);
}

// Found in the sample where nothing is on the host yet.
Result<const std::vector<BodyLevel>*> Grid::Levels(int64_t pieces,
                                                   Trips trips) {
  const std::pair key(pieces, trips);
  const auto at = levels_.find(key);
  if (at != levels_.end()) return &at->second;
  STOWAGE_ASSIGN_OR_RETURN(Variant* const as_they_are,
                           Get(pieces, {}, {.trips = trips}));
  STOWAGE_ASSIGN_OR_RETURN(
      std::vector<BodyLevel> levels,
      FindBodyLevels(
          as_they_are->sample(),
          {.plan = options_.plan,
           .always_kept = NamesInPieces(as_they_are->sample(),
                                        options_.recompute.always_kept, pieces),
           .cost = options_.recompute.cost,
           .effort = options_.recompute.effort,
           .on_choice = options_.recompute.on_choice}));
  return &levels_.emplace(key, std::move(levels)).first->second;
}

Result<bool> Grid::HasBodies(int64_t pieces) {
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample, GetSample(pieces));
  return std::ranges::any_of(sample->step.graph.nodes(), [](const Node& node) {
    return !BodiesOf(node).empty();
  });
}

// Where anything may run again, trips may, and what bodies make.
Result<std::vector<Way>> Grid::Ways(const Levers& levers) {
  std::vector<Way> ways;
  for (const int64_t pieces : levers.pieces) ways.push_back({{}, pieces});
  if (levers.recompute != Recompute::kAuto) return ways;
  STOWAGE_ASSIGN_OR_RETURN(const bool has_bodies,
                           HasBodies(levers.pieces.front()));
  if (!has_bodies) return ways;
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Trips> all_trips,
                           TripsToTry(levers.pieces.front()));
  for (const Trips trips : all_trips) {
    if (trips == Trips::kKept) continue;
    for (const int64_t pieces : levers.pieces) {
      ways.push_back({{.trips = trips}, pieces});
    }
  }
  for (const auto& [inside, pieces] : std::vector(ways)) {
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<BodyLevel>* const levels,
                             Levels(pieces, inside.trips));
    for (size_t level = 1; level <= levels->size(); ++level) {
      ways.push_back({{inside.trips, level}, pieces});
    }
  }
  return ways;
}

Result<std::vector<Share>> Grid::Shares(const Levers& levers) {
  if (levers.offload == OffloadChoice::kNone) return std::vector<Share>(1);
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(levers.pieces.front()));
  STOWAGE_ASSIGN_OR_RETURN(const bool has_bodies,
                           HasBodies(levers.pieces.front()));
  return SharesToTry(sample->movable, has_bodies);
}

Result<Bytes> Grid::ArenaAsItIs(int64_t pieces, size_t states) {
  const std::pair key(pieces, states);
  const auto at = by_states_.find(key);
  if (at != by_states_.end()) return at->second;
  STOWAGE_ASSIGN_OR_RETURN(const std::unique_ptr<Variant> variant,
                           MakeVariant(pieces, {.states = states}));
  return by_states_[key] = variant->arena();
}

// As few states moved as do where nothing runs again.
Result<std::optional<FittedStep>> Grid::FitByStates(int64_t pieces,
                                                    Bytes budget,
                                                    double limit) {
  const std::optional<FittedStep> none;
  STOWAGE_ASSIGN_OR_RETURN(Variant* const unmoved, Get(pieces, {}));
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample, GetSample(pieces));
  const auto states =
      std::span(sample->movable).first(CountStates(sample->movable));
  if (states.empty()) return none;
  // Too few: their bytes alone are less than what is missing.
  size_t least = 0;
  double copied = 0;
  for (Bytes left = unmoved->arena() - budget;
       least < states.size() && left > 0; ++least) {
    left -= AlignUp(states[least].bytes, options_.plan.alignment);
    copied += 2 * static_cast<double>(states[least].bytes);
    if (unmoved->cost() + options_.cost_per_byte * copied >= limit) return none;
  }
  size_t most = states.size();
  STOWAGE_ASSIGN_OR_RETURN(const Bytes all, ArenaAsItIs(pieces, most));
  if (all > budget) return none;
  while (least < most) {
    const size_t middle = least + (most - least) / 2;
    STOWAGE_ASSIGN_OR_RETURN(const Bytes arena, ArenaAsItIs(pieces, middle));
    if (arena <= budget) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  // The whole step may be packed a little less well than its sample.
  for (; most <= states.size(); ++most) {
    STOWAGE_ASSIGN_OR_RETURN(const std::unique_ptr<Variant> variant,
                             MakeVariant(pieces, {.states = most}));
    if (variant->cost() >= limit) return none;
    STOWAGE_ASSIGN_OR_RETURN(std::optional<FittedStep> step,
                             variant->Fit(budget, Recompute::kNone, limit));
    if (step) return step;
  }
  return none;
}

Result<std::optional<FittedStep>> Grid::Cheapest(Bytes budget,
                                                 const Levers& levers) {
  std::optional<FittedStep> best;
  Variant* of_best = nullptr;  // where it is one of those below
  const auto take = [&](std::optional<FittedStep> step, Variant* variant) {
    if (!step) return;
    best = std::move(step);
    of_best = variant;
  };
  const auto limit = [&] { return best ? best->total_cost() : kAnyCost; };
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Share> shares, Shares(levers));
  STOWAGE_ASSIGN_OR_RETURN(Variant* const first,
                           Get(levers.pieces.front(), {}));
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(levers.pieces.front()));
  // Of a step with so much on the host, whatever else is done.
  const auto cost_of_copies = [&](Share share) {
    double bytes = 0;
    for (size_t k = 0; k < share.states; ++k) {
      bytes += 2 * static_cast<double>(sample->movable[k].bytes);
    }
    return first->cost() + options_.cost_per_byte * bytes;
  };

  // Where nothing runs again but in loops and branches, the first that fits its share is
  // the cheapest.
  std::vector<Variant*> variants;
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Way> ways, Ways(levers));
  for (const Share share : shares) {
    for (const auto& [inside, pieces] : ways) {
      if (cost_of_copies(share) >= limit()) continue;
      STOWAGE_ASSIGN_OR_RETURN(Variant* const variant,
                               Get(pieces, share, inside));
      if (std::ranges::count(variants, variant) > 0) continue;
      variants.push_back(variant);
      STOWAGE_ASSIGN_OR_RETURN(
          std::optional<FittedStep> step,
          variant->FitAsGiven(budget, levers.recompute, limit()));
      take(std::move(step), variant);
    }
  }
  if (shares.size() > 1 && options_.recompute.always_remade.empty()) {
    for (const int64_t pieces : levers.pieces) {
      STOWAGE_ASSIGN_OR_RETURN(std::optional<FittedStep> step,
                               FitByStates(pieces, budget, limit()));
      take(std::move(step), nullptr);
    }
  }
  if (levers.recompute == Recompute::kNone) return best;

  // What runs again is searched where it can be cheapest, first.
  std::erase_if(variants, [&](const Variant* variant) {
    return variant->cost() >= limit();
  });
  const double known = limit();
  STOWAGE_ASSIGN_OR_RETURN(ByBound<double> by_bound,
                           SortByBound<double>(variants, [&](Variant& variant) {
                             return variant.LeastCost(budget, levers.recompute,
                                                      known);
                           }));
  for (size_t k = 0; k < by_bound.size(); k += ParallelParts()) {
    std::vector<Variant*> next;
    for (const auto& [least, variant] : Part(std::span(by_bound), k)) {
      if (least < limit()) next.push_back(variant);
    }
    STOWAGE_RETURN_IF_ERROR(InParallel(next, &Variant::PrepareChoices));
    for (Variant* const variant : next) {
      STOWAGE_ASSIGN_OR_RETURN(std::optional<FittedStep> step,
                               variant->Fit(budget, levers.recompute, limit()));
      take(std::move(step), variant);
    }
  }
  const bool has_choice = ways.size() > levers.pieces.size();
  if (has_choice && of_best != nullptr && best->price.extra_cost > 0) {
    STOWAGE_ASSIGN_OR_RETURN(best->price.least_extra_cost,
                             LeastExtraCost(of_best, ways, budget));
  }
  return best;
}

// The least that runs again in so many pieces with so much on the host, trips or not, if
// bodies were as low as they get for nothing.
Result<double> Grid::LeastExtraCost(const Variant* variant,
                                    std::span<const Way> ways, Bytes budget) {
  const auto same = std::ranges::find_if(variants_, [&](const auto& each) {
    return each.second.get() == variant;
  });
  const auto [pieces, share, _] = same->first;
  double least = kAnyCost;
  for (const Way& way : ways) {
    const auto& [inside, in_pieces] = way;
    if (in_pieces != pieces || (inside.level > 0 && !share.inside)) continue;
    STOWAGE_ASSIGN_OR_RETURN(Variant* const as_they_are,
                             Get(pieces, share, inside));
    STOWAGE_ASSIGN_OR_RETURN(Variant* const lowest,
                             Get(pieces, share, Lowest(ways, way, share)));
    STOWAGE_ASSIGN_OR_RETURN(const double extra,
                             lowest->LeastExtraCost(budget));
    least = std::min(least, as_they_are->in_bodies_cost() + extra);
  }
  return least;
}

// Moving states takes no more off a need than their own bytes: so much is known
// of a step without building it.
Result<bool> Grid::CannotNeedLess(Way way, Share share, Recompute recompute,
                                  Bytes most) {
  if (share.halves > 0 || share.states == 0 || share.inside) return false;
  const auto& [inside, pieces] = way;
  STOWAGE_ASSIGN_OR_RETURN(Variant* const unmoved, Get(pieces, {}, inside));
  STOWAGE_ASSIGN_OR_RETURN(const Bytes least, unmoved->LeastArena(recompute));
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample, GetSample(pieces));
  return least - SlotsOf(std::span(sample->movable).first(share.states),
                         options_.plan.alignment) >
         most;
}

Result<Grid::Need> Grid::Smallest(const Levers& levers) {
  Need need{.variant = nullptr, .bytes = kNoLimit};
  const auto most = [&] {
    return need.variant == nullptr ? kNoLimit : need.bytes - 1;
  };
  const auto improve = [&](Variant* variant,
                           Result<std::optional<Bytes>> smallest) -> Status {
    if (!smallest.ok()) return smallest.error();
    if (*smallest) need = {variant, **smallest};
    return {};
  };
  // What runs again is searched for as many as can be at once, of whatever share;
  // the outcome is that of one after the other.
  std::vector<std::pair<Bytes, Variant*>> waiting;
  const auto search = [&]() -> Status {
    std::vector<Variant*> next;
    for (const auto& [least, variant] : std::exchange(waiting, {})) {
      if (least <= most()) next.push_back(variant);
    }
    if (levers.recompute != Recompute::kNone) {
      STOWAGE_RETURN_IF_ERROR(InParallel(next, &Variant::PrepareChoices));
    }
    for (Variant* const variant : next) {
      STOWAGE_RETURN_IF_ERROR(
          improve(variant, variant->Smallest(levers.recompute, most())));
    }
    return {};
  };
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Share> shares, Shares(levers));
  // The more is moved, the less is needed, mostly; of a share, what may need the
  // least comes first.
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Way> ways, Ways(levers));
  for (auto share = shares.rbegin(); share != shares.rend(); ++share) {
    std::vector<Variant*> variants;
    for (const auto& [inside, pieces] : ways) {
      STOWAGE_ASSIGN_OR_RETURN(
          const bool skip,
          CannotNeedLess({inside, pieces}, *share, levers.recompute, most()));
      if (skip) continue;
      STOWAGE_ASSIGN_OR_RETURN(Variant* const variant,
                               Get(pieces, *share, inside));
      variants.push_back(variant);
    }
    STOWAGE_ASSIGN_OR_RETURN(
        ByBound<Bytes> by_bound,
        SortByBound<Bytes>(variants, [&](Variant& variant) {
          return variant.LeastArena(levers.recompute);
        }));
    // What needs as little as can be while nothing runs again is not searched.
    for (const auto& [least, variant] : by_bound) {
      if (variant->arena() > least || least > most()) continue;
      STOWAGE_RETURN_IF_ERROR(search());
      STOWAGE_RETURN_IF_ERROR(
          improve(variant, variant->SmallestAsGiven(levers.recompute, most())));
    }
    for (const auto& bounded : by_bound) {
      // All pieces are alike, so that two shares may be one variant.
      const bool waits = std::ranges::count(waiting, bounded) > 0;
      if (waits || bounded.first > most()) continue;
      waiting.push_back(bounded);
      if (waiting.size() == ParallelParts()) {
        STOWAGE_RETURN_IF_ERROR(search());
      }
    }
  }
  STOWAGE_RETURN_IF_ERROR(search());
  STOWAGE_CHECK(need.variant != nullptr);
  return need;
}

Result<std::vector<Bargain>> Grid::Frontier(const Levers& levers) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Share> shares, Shares(levers));
  STOWAGE_ASSIGN_OR_RETURN(Variant* const first,
                           Get(levers.pieces.front(), {}));
  struct Candidate {
    Share share;
    Bargain bargain;
  };
  std::vector<Candidate> all;
  const auto add = [&](Share share, const Variant& variant, Bargain bargain) {
    Price& price = bargain.price;
    price.extra_cost += variant.cost() - first->cost();
    price.extra_flops += variant.flops() - first->flops();
    price.extra_percent =
        100 * price.extra_flops / std::max(first->flops(), 1.0);
    all.push_back({share, std::move(bargain)});
  };
  std::vector<Variant*> variants;
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Way> ways, Ways(levers));
  for (const Share share : shares) {
    for (const auto& [inside, pieces] : ways) {
      STOWAGE_ASSIGN_OR_RETURN(Variant* const variant,
                               Get(pieces, share, inside));
      if (std::ranges::count(variants, variant) > 0) continue;
      variants.push_back(variant);
    }
  }
  STOWAGE_RETURN_IF_ERROR(InParallel(variants, &Variant::PrepareBounds));
  if (levers.recompute != Recompute::kNone) {
    STOWAGE_RETURN_IF_ERROR(InParallel(variants, &Variant::PrepareChoices));
  }
  for (const Share share : shares) {
    for (const auto& [inside, pieces] : ways) {
      STOWAGE_ASSIGN_OR_RETURN(Variant* const variant,
                               Get(pieces, share, inside));
      STOWAGE_ASSIGN_OR_RETURN(std::vector<Bargain> bargains,
                               variant->Frontier(levers.recompute));
      for (Bargain& bargain : bargains) add(share, *variant, bargain);
    }
  }
  // States alone, in even steps.
  const size_t states = shares.size() > 1 ? shares.back().states : 0;
  const size_t steps = std::min(kStateSteps, states);
  for (size_t k = 1; k < steps; ++k) {
    const Share share = {.states = states * k / steps};
    STOWAGE_ASSIGN_OR_RETURN(const std::unique_ptr<Variant> variant,
                             MakeVariant(levers.pieces.front(), share));
    STOWAGE_ASSIGN_OR_RETURN(std::vector<Bargain> as_given,
                             variant->Frontier(Recompute::kNone));
    add(share, *variant, std::move(as_given.front()));
  }
  std::ranges::stable_sort(all, {}, [](const Candidate& each) {
    return std::pair(each.bargain.price.extra_cost, each.bargain.arena);
  });
  std::vector<Bargain> kept;
  for (Candidate& each : all) {
    Bargain& bargain = each.bargain;
    if (!kept.empty() && bargain.arena >= kept.back().arena) continue;
    // The least of what runs again, in any number of pieces, with the same on
    // the host.
    const Share share =
        std::ranges::count(shares, each.share) > 0 ? each.share : Share{};
    STOWAGE_ASSIGN_OR_RETURN(Variant* const fewest,
                             Get(levers.pieces.front(), share));
    double least = kAnyCost;
    for (const Way& way : ways) {
      const auto& [inside, pieces] = way;
      if (inside.level > 0 && !share.inside) continue;
      STOWAGE_ASSIGN_OR_RETURN(Variant* const as_they_are,
                               Get(pieces, share, inside));
      STOWAGE_ASSIGN_OR_RETURN(Variant* const lowest,
                               Get(pieces, share, Lowest(ways, way, share)));
      STOWAGE_ASSIGN_OR_RETURN(const double extra,
                               lowest->LeastExtraCost(bargain.arena));
      least = std::min(least, as_they_are->cost() - fewest->cost() + extra);
    }
    bargain.price.least_extra_cost = share == each.share ? least : 0;
    kept.push_back(std::move(bargain));
  }
  return kept;
}

}  // namespace stowage::fit
