#include "planner/fit/grid.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/parallel.h"
#include "base/result.h"
#include "ir/bodies.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/uses.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan.h"

namespace stowage::fit {
namespace {

// The most micro-batches that are unrolled so that they read params on the host.
constexpr int64_t kMaxInOrder = 4;
constexpr size_t kStateSteps = 16;  // of a frontier, from no state to all

// An upper bound on the bytes of the arena that moving `states` frees, in aligned slots.
Bytes SlotsOf(std::span<const Offloadable> states, Bytes alignment) {
  Bytes sum = 0;
  for (const Offloadable& state : states) {
    sum += AlignUp(state.bytes, alignment);
  }
  return sum;
}

// The most bytes of the arena that any node of `graph` needs for its operands, results and
// workspace, whatever is offloaded or recomputed. Nodes with bodies, whose workspace may fall,
// are left out.
Bytes LargestNode(const Graph& graph, const PlanOptions& options) {
  const Layouts layouts = ComputeLayouts(graph);
  const WorkspaceFn workspace = NodeWorkspace(options);
  Bytes largest = 0;
  std::vector<ValueId> roots;
  for (const Node& node : graph.nodes()) {
    const OpDef& def = GetOpDef(node.op);
    if (def.is_view() || !BodiesOf(node).empty()) continue;
    roots.clear();
    for (const ValueId input : node.inputs) {
      roots.push_back(layouts[Index(input)].root);
    }
    // The first result may take over an operand; those of an update do.
    const bool takes_over = InPlace(graph, layouts, node).any();
    for (size_t r = std::max<size_t>(Index(def.updates), takes_over);
         r < node.results.size(); ++r) {
      roots.push_back(node.results[r]);
    }
    std::ranges::sort(roots);
    Bytes bytes = AlignUp(workspace(graph, node), options.alignment);
    for (size_t i = 0; i < roots.size(); ++i) {
      const ValueInfo& root = graph.value(roots[i]);
      const bool is_first = i == 0 || roots[i] != roots[i - 1];
      if (is_first && !root.on_host) {
        bytes += AlignUp(root.type.bytes(), options.alignment);
      }
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

// Variants share nothing that they prepare, so all are prepared in parallel.
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

// The variants by ascending bounds, which are computed in parallel.
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

// The same way with the lowest bodies. Nothing is known of bodies that keep values on the host:
// recomputed values are not live across.
InsideWay Lowest(std::span<const Way> ways, const Way& way, Share share) {
  InsideWay lowest = way.first;
  if (share.inside) return lowest;
  for (const auto& [inside, micro_batches] : ways) {
    if (micro_batches == way.second && inside.iterations == lowest.iterations) {
      lowest = std::max(lowest, inside);
    }
  }
  return lowest;
}

// The elements from `first` that are searched in parallel.
template <typename T>
std::span<T> Part(std::span<T> all, size_t first) {
  return all.subspan(first, std::min(ParallelParts(), all.size() - first));
}

}  // namespace

// Given states stay where they are.
std::vector<Offloadable> Grid::Movable(const Graph& graph) const {
  std::vector<Offloadable> all = FindOffloadable(graph);
  const std::optional<WeightLayout>& given = options_.plan.weights;
  if (given && given->state_bytes() + given->host_state_bytes() > 0) {
    std::erase_if(all, &Offloadable::persists);
  }
  return all;
}

// Given weights that may not move stay where they are, as constants do.
std::vector<Offloadable> Grid::MovableParams(const Graph& graph,
                                             bool trained) const {
  const std::optional<WeightLayout>& given = options_.plan.weights;
  if (given && !given->may_move()) return {};
  std::vector<Offloadable> params = FindOffloadableParams(graph, trained);
  std::erase_if(params, [&](const Offloadable& param) {
    return options_.plan.outside.contains(graph.value(param.value).name);
  });
  return params;
}

Result<const Grid::Sample*> Grid::GetSample(int64_t micro_batches) {
  const auto at = samples_.find(micro_batches);
  if (at != samples_.end()) return &at->second;
  Sample sample;
  STOWAGE_ASSIGN_OR_RETURN(sample.step,
                           build_(micro_batches, Sampling::kOneForAll));
  sample.movable = Movable(sample.step.graph);
  sample.largest_node = LargestNode(sample.step.graph, options_.plan);
  return &samples_.emplace(micro_batches, std::move(sample)).first->second;
}

// `graph` with its iterations recomputed. Precondition: not Iterations::kKept.
Result<RecomputedIterations> Grid::WithIterationsAgain(
    int64_t micro_batches, const Graph& graph, Iterations iterations) const {
  const std::vector<std::string> kept = WithNodesThatMake(
      graph, NamesInMicroBatches(graph, options_.recompute.always_kept,
                                 micro_batches));
  IterationOptions options = {.kept = kept};
  if (iterations == Iterations::kInSegments) options.segment.reset();
  return RecomputeIterations(graph, options);
}

Result<std::unique_ptr<Variant>> Grid::MakeVariant(int64_t micro_batches,
                                                   Share share,
                                                   InsideWay inside) {
  if (options_.recompute.on_choice) options_.recompute.on_choice();
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(micro_batches));
  const BodyLevel* level = nullptr;
  if (inside.level > 0) {
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<BodyLevel>* const levels,
                             Levels(micro_batches, inside.iterations));
    level = &levels->at(inside.level - 1);
  }
  const auto change = [=,
                       this](SampledStep& step) -> Result<Variant::InBodies> {
    Variant::InBodies in_bodies;
    if (inside.iterations != Iterations::kKept) {
      STOWAGE_ASSIGN_OR_RETURN(
          RecomputedIterations made,
          WithIterationsAgain(micro_batches, step.graph, inside.iterations));
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
    std::vector<Offloadable> moved =
        Select(Movable(step.graph), share, micro_batches);
    if (share.params) {
      std::ranges::move(
          SelectParams(MovableParams(step.graph, share.trained), share),
          std::back_inserter(moved));
    }
    if (moved.empty()) return in_bodies;
    STOWAGE_ASSIGN_OR_RETURN(step.graph,
                             Offload(step.graph, moved, step.begins));
    return in_bodies;
  };
  if (share.params && sample->step.loop) {
    // Bodies read nothing on the host, so micro-batches are unrolled.
    STOWAGE_ASSIGN_OR_RETURN(SampledStep in_order,
                             build_(micro_batches, Sampling::kOneOfAKind));
    return Variant::Make(micro_batches, std::move(in_order), build_, change,
                         options_);
  }
  return Variant::Make(micro_batches, sample->step, build_, change, options_);
}

Result<Variant*> Grid::Get(int64_t micro_batches, Share share,
                           InsideWay inside) {
  // Micro-batches are alike, so that all or no values move.
  if (micro_batches > 1 && share.halves > 0) share.halves = 2;
  if (share.inside) {
    STOWAGE_ASSIGN_OR_RETURN(Variant* const unmoved,
                             Get(micro_batches, {}, inside));
    share.inside = WaitsInBodies(unmoved->sample());
  }
  std::unique_ptr<Variant>& variant = variants_[{micro_batches, share, inside}];
  if (!variant) {
    STOWAGE_ASSIGN_OR_RETURN(variant,
                             MakeVariant(micro_batches, share, inside));
  }
  return variant.get();
}

// Only values that make a difference for the loops of the step.
Result<std::vector<Iterations>> Grid::IterationsToTry(int64_t micro_batches) {
  if (!iterations_.empty()) return iterations_;
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(micro_batches));
  std::vector<Iterations> all = {Iterations::kKept};
  for (const Iterations iterations :
       {Iterations::kEach, Iterations::kInSegments}) {
    STOWAGE_ASSIGN_OR_RETURN(
        const RecomputedIterations made,
        WithIterationsAgain(micro_batches, sample->step.graph, iterations));
    const bool is_new =
        std::ranges::any_of(made.loops, [&](const RecomputedLoop& loop) {
          return iterations == Iterations::kEach || loop.segment > 1;
        });
    if (is_new) all.push_back(iterations);
  }
  return iterations_ = std::move(all);
}

// They are found in the sample without offload.
Result<const std::vector<BodyLevel>*> Grid::Levels(int64_t micro_batches,
                                                   Iterations iterations) {
  const std::pair key(micro_batches, iterations);
  const auto at = levels_.find(key);
  if (at != levels_.end()) return &at->second;
  STOWAGE_ASSIGN_OR_RETURN(Variant* const as_they_are,
                           Get(micro_batches, {}, {.iterations = iterations}));
  STOWAGE_ASSIGN_OR_RETURN(
      std::vector<BodyLevel> levels,
      FindBodyLevels(as_they_are->sample(),
                     {.plan = options_.plan,
                      .always_kept = NamesInMicroBatches(
                          as_they_are->sample(), options_.recompute.always_kept,
                          micro_batches),
                      .cost = options_.recompute.cost,
                      .effort = options_.recompute.effort,
                      .on_choice = options_.recompute.on_choice}));
  return &levels_.emplace(key, std::move(levels)).first->second;
}

Result<bool> Grid::HasBodies(int64_t micro_batches) {
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(micro_batches));
  return std::ranges::any_of(sample->step.graph.nodes(), [](const Node& node) {
    return !BodiesOf(node).empty();
  });
}

// Iterations and bodies are recomputed only with Recompute::kAuto.
Result<std::vector<Way>> Grid::Ways(const MemoryOptimizations& optimizations) {
  std::vector<Way> ways;
  for (const int64_t micro_batches : optimizations.micro_batches)
    ways.push_back({{}, micro_batches});
  if (optimizations.recompute != Recompute::kAuto) return ways;
  STOWAGE_ASSIGN_OR_RETURN(const bool has_bodies,
                           HasBodies(optimizations.micro_batches.front()));
  if (!has_bodies) return ways;
  STOWAGE_ASSIGN_OR_RETURN(
      const std::vector<Iterations> all_iterations,
      IterationsToTry(optimizations.micro_batches.front()));
  for (const Iterations iterations : all_iterations) {
    if (iterations == Iterations::kKept) continue;
    for (const int64_t micro_batches : optimizations.micro_batches) {
      ways.push_back({{.iterations = iterations}, micro_batches});
    }
  }
  for (const auto& [inside, micro_batches] : std::vector(ways)) {
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<BodyLevel>* const levels,
                             Levels(micro_batches, inside.iterations));
    for (size_t level = 1; level <= levels->size(); ++level) {
      ways.push_back({{inside.iterations, level}, micro_batches});
    }
  }
  return ways;
}

Result<std::vector<Share>> Grid::Shares(
    const MemoryOptimizations& optimizations) {
  if (optimizations.offload == OffloadChoice::kNone)
    return std::vector<Share>(1);
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(optimizations.micro_batches.front()));
  STOWAGE_ASSIGN_OR_RETURN(const bool has_bodies,
                           HasBodies(optimizations.micro_batches.front()));
  const bool trained = optimizations.offload == OffloadChoice::kDisk;
  const bool has_params = !MovableParams(sample->step.graph, trained).empty();
  return SharesToTry(sample->movable, has_bodies, has_params, trained);
}

Result<bool> Grid::IsMade(int64_t micro_batches, Share share, Bytes budget) {
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(micro_batches));
  if (sample->largest_node > budget) return false;
  return !share.params || micro_batches <= kMaxInOrder || !sample->step.loop;
}

Result<Bytes> Grid::ArenaAsItIs(int64_t micro_batches, size_t states) {
  const std::pair key(micro_batches, states);
  const auto at = by_states_.find(key);
  if (at != by_states_.end()) return at->second;
  STOWAGE_ASSIGN_OR_RETURN(const std::unique_ptr<Variant> variant,
                           MakeVariant(micro_batches, {.states = states}));
  return by_states_[key] = variant->arena();
}

// Moves as few states as fit without recomputation.
Result<std::optional<FittedStep>> Grid::FitByStates(int64_t micro_batches,
                                                    Bytes budget,
                                                    double limit) {
  const std::optional<FittedStep> none;
  STOWAGE_ASSIGN_OR_RETURN(Variant* const unmoved, Get(micro_batches, {}));
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(micro_batches));
  const auto states =
      std::span(sample->movable).first(CountStates(sample->movable));
  if (states.empty()) return none;
  // A lower bound: the bytes of fewer states are less than the excess.
  size_t least = 0;
  double copied = 0;
  for (Bytes left = unmoved->arena() - budget;
       least < states.size() && left > 0; ++least) {
    left -= AlignUp(states[least].bytes, options_.plan.alignment);
    copied += 2 * static_cast<double>(states[least].bytes);
    if (unmoved->cost() + options_.cost_per_byte * copied >= limit) return none;
  }
  size_t most = states.size();
  STOWAGE_ASSIGN_OR_RETURN(const Bytes all, ArenaAsItIs(micro_batches, most));
  if (all > budget) return none;
  while (least < most) {
    const size_t middle = least + (most - least) / 2;
    STOWAGE_ASSIGN_OR_RETURN(const Bytes arena,
                             ArenaAsItIs(micro_batches, middle));
    if (arena <= budget) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  // The whole step may be packed slightly higher than its sample.
  for (; most <= states.size(); ++most) {
    STOWAGE_ASSIGN_OR_RETURN(const std::unique_ptr<Variant> variant,
                             MakeVariant(micro_batches, {.states = most}));
    if (variant->cost() >= limit) return none;
    STOWAGE_ASSIGN_OR_RETURN(std::optional<FittedStep> step,
                             variant->Fit(budget, Recompute::kNone, limit));
    if (step) return step;
  }
  return none;
}

Result<std::optional<FittedStep>> Grid::Cheapest(
    Bytes budget, const MemoryOptimizations& optimizations, double most_cost) {
  std::optional<FittedStep> best;
  Variant* of_best = nullptr;  // where it is one of those below
  const auto take = [&](std::optional<FittedStep> step, Variant* variant) {
    if (!step) return;
    best = std::move(step);
    of_best = variant;
  };
  const auto limit = [&] { return best ? best->total_cost() : most_cost; };
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Share> shares,
                           Shares(optimizations));
  STOWAGE_ASSIGN_OR_RETURN(Variant* const first,
                           Get(optimizations.micro_batches.front(), {}));
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(optimizations.micro_batches.front()));
  // A lower bound on the cost of a step with this share on the host.
  const auto cost_of_copies = [&](Share share) {
    double bytes = 0;
    for (size_t k = 0; k < share.states; ++k) {
      bytes += 2 * static_cast<double>(sample->movable[k].bytes);
    }
    return first->cost() + options_.cost_per_byte * bytes;
  };

  // Without recomputation outside loops and branches, the first candidate of a share that fits is
  // its cheapest.
  std::vector<Variant*> variants;
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Way> ways, Ways(optimizations));
  for (const Share share : shares) {
    for (const auto& [inside, micro_batches] : ways) {
      if (cost_of_copies(share) >= limit()) continue;
      STOWAGE_ASSIGN_OR_RETURN(const bool is_made,
                               IsMade(micro_batches, share, budget));
      if (!is_made) continue;
      STOWAGE_ASSIGN_OR_RETURN(Variant* const variant,
                               Get(micro_batches, share, inside));
      if (std::ranges::count(variants, variant) > 0) continue;
      variants.push_back(variant);
      STOWAGE_ASSIGN_OR_RETURN(
          std::optional<FittedStep> step,
          variant->FitAsGiven(budget, optimizations.recompute, limit()));
      take(std::move(step), variant);
    }
  }
  if (shares.size() > 1 && options_.recompute.always_recomputed.empty()) {
    for (const int64_t micro_batches : optimizations.micro_batches) {
      STOWAGE_ASSIGN_OR_RETURN(const bool is_made,
                               IsMade(micro_batches, {}, budget));
      if (!is_made) continue;
      STOWAGE_ASSIGN_OR_RETURN(std::optional<FittedStep> step,
                               FitByStates(micro_batches, budget, limit()));
      take(std::move(step), nullptr);
    }
  }
  if (optimizations.recompute == Recompute::kNone) return best;

  // Recomputation is searched by ascending lower bounds.
  std::erase_if(variants, [&](const Variant* variant) {
    return variant->cost() >= limit();
  });
  const double known = limit();
  STOWAGE_ASSIGN_OR_RETURN(ByBound<double> by_bound,
                           SortByBound<double>(variants, [&](Variant& variant) {
                             return variant.LeastCost(
                                 budget, optimizations.recompute, known);
                           }));
  for (size_t k = 0; k < by_bound.size(); k += ParallelParts()) {
    std::vector<Variant*> next;
    for (const auto& [least, variant] : Part(std::span(by_bound), k)) {
      if (least < limit()) next.push_back(variant);
    }
    STOWAGE_RETURN_IF_ERROR(InParallel(next, &Variant::PrepareChoices));
    for (Variant* const variant : next) {
      STOWAGE_ASSIGN_OR_RETURN(
          std::optional<FittedStep> step,
          variant->Fit(budget, optimizations.recompute, limit()));
      take(std::move(step), variant);
    }
  }
  const bool has_choice = ways.size() > optimizations.micro_batches.size();
  if (has_choice && of_best != nullptr && best->price.extra_cost > 0) {
    STOWAGE_ASSIGN_OR_RETURN(best->price.least_extra_cost,
                             LeastExtraCost(of_best, ways, budget));
  }
  return best;
}

// A lower bound on the extra cost with the micro-batches and share of `variant`, as if bodies were
// as low as possible at no cost.
Result<double> Grid::LeastExtraCost(const Variant* variant,
                                    std::span<const Way> ways, Bytes budget) {
  const auto same = std::ranges::find_if(variants_, [&](const auto& each) {
    return each.second.get() == variant;
  });
  const auto [micro_batches, share, _] = same->first;
  double least = kAnyCost;
  for (const Way& way : ways) {
    const auto& [inside, in_micro_batches] = way;
    if (in_micro_batches != micro_batches ||
        (inside.level > 0 && !share.inside))
      continue;
    STOWAGE_ASSIGN_OR_RETURN(Variant* const as_they_are,
                             Get(micro_batches, share, inside));
    STOWAGE_ASSIGN_OR_RETURN(
        Variant* const lowest,
        Get(micro_batches, share, Lowest(ways, way, share)));
    STOWAGE_ASSIGN_OR_RETURN(const double extra,
                             lowest->LeastExtraCost(budget));
    least = std::min(least, as_they_are->in_bodies_cost() + extra);
  }
  return least;
}

// Moving states lowers the need by at most their bytes, so some candidates are excluded unbuilt.
Result<bool> Grid::CannotNeedLess(Way way, Share share, Recompute recompute,
                                  Bytes most) {
  if (share.halves > 0 || share.states == 0 || share.inside || share.params) {
    return false;
  }
  const auto& [inside, micro_batches] = way;
  STOWAGE_ASSIGN_OR_RETURN(Variant* const unmoved,
                           Get(micro_batches, {}, inside));
  STOWAGE_ASSIGN_OR_RETURN(const Bytes least, unmoved->LeastArena(recompute));
  STOWAGE_ASSIGN_OR_RETURN(const Sample* const sample,
                           GetSample(micro_batches));
  return least - SlotsOf(std::span(sample->movable).first(share.states),
                         options_.plan.alignment) >
         most;
}

Result<Grid::Need> Grid::Smallest(const MemoryOptimizations& optimizations) {
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
  // Candidates of any share are searched in parallel; the result is that of a sequential search.
  std::vector<std::pair<Bytes, Variant*>> waiting;
  const auto search = [&]() -> Status {
    std::vector<Variant*> next;
    for (const auto& [least, variant] : std::exchange(waiting, {})) {
      if (least <= most()) next.push_back(variant);
    }
    if (optimizations.recompute != Recompute::kNone) {
      STOWAGE_RETURN_IF_ERROR(InParallel(next, &Variant::PrepareChoices));
    }
    for (Variant* const variant : next) {
      STOWAGE_RETURN_IF_ERROR(
          improve(variant, variant->Smallest(optimizations.recompute, most())));
    }
    return {};
  };
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Share> shares,
                           Shares(optimizations));
  // Larger shares mostly need less, so they come first; of a share, the lowest bound.
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Way> ways, Ways(optimizations));
  for (auto share = shares.rbegin(); share != shares.rend(); ++share) {
    std::vector<Variant*> variants;
    for (const auto& [inside, micro_batches] : ways) {
      STOWAGE_ASSIGN_OR_RETURN(const bool skip,
                               CannotNeedLess({inside, micro_batches}, *share,
                                              optimizations.recompute, most()));
      STOWAGE_ASSIGN_OR_RETURN(const bool is_made,
                               IsMade(micro_batches, *share, most()));
      if (skip || !is_made) continue;
      STOWAGE_ASSIGN_OR_RETURN(Variant* const variant,
                               Get(micro_batches, *share, inside));
      variants.push_back(variant);
    }
    STOWAGE_ASSIGN_OR_RETURN(
        ByBound<Bytes> by_bound,
        SortByBound<Bytes>(variants, [&](Variant& variant) {
          return variant.LeastArena(optimizations.recompute);
        }));
    // Candidates that reach their bound without recomputation are not searched.
    for (const auto& [least, variant] : by_bound) {
      if (variant->arena() > least || least > most()) continue;
      STOWAGE_RETURN_IF_ERROR(search());
      STOWAGE_RETURN_IF_ERROR(improve(
          variant, variant->SmallestAsGiven(optimizations.recompute, most())));
    }
    for (const auto& bounded : by_bound) {
      // Micro-batches are alike, so that two shares may be one variant.
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

Result<std::vector<ParetoPoint>> Grid::Frontier(
    const MemoryOptimizations& optimizations) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Share> shares,
                           Shares(optimizations));
  STOWAGE_ASSIGN_OR_RETURN(Variant* const first,
                           Get(optimizations.micro_batches.front(), {}));
  struct Candidate {
    Share share;
    ParetoPoint point;
  };
  std::vector<Candidate> all;
  const auto add = [&](Share share, const Variant& variant, ParetoPoint point) {
    Price& price = point.price;
    price.extra_cost += variant.cost() - first->cost();
    price.extra_flops += variant.flops() - first->flops();
    price.extra_percent =
        100 * price.extra_flops / std::max(first->flops(), 1.0);
    all.push_back({share, std::move(point)});
  };
  std::vector<Variant*> variants;
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Way> ways, Ways(optimizations));
  for (const Share share : shares) {
    for (const auto& [inside, micro_batches] : ways) {
      STOWAGE_ASSIGN_OR_RETURN(const bool is_made,
                               IsMade(micro_batches, share, kNoLimit));
      if (!is_made) continue;
      STOWAGE_ASSIGN_OR_RETURN(Variant* const variant,
                               Get(micro_batches, share, inside));
      if (std::ranges::count(variants, variant) > 0) continue;
      variants.push_back(variant);
    }
  }
  STOWAGE_RETURN_IF_ERROR(InParallel(variants, &Variant::PrepareBounds));
  if (optimizations.recompute != Recompute::kNone) {
    STOWAGE_RETURN_IF_ERROR(InParallel(variants, &Variant::PrepareChoices));
  }
  for (const Share share : shares) {
    for (const auto& [inside, micro_batches] : ways) {
      STOWAGE_ASSIGN_OR_RETURN(const bool is_made,
                               IsMade(micro_batches, share, kNoLimit));
      if (!is_made) continue;
      STOWAGE_ASSIGN_OR_RETURN(Variant* const variant,
                               Get(micro_batches, share, inside));
      STOWAGE_ASSIGN_OR_RETURN(std::vector<ParetoPoint> points,
                               variant->Frontier(optimizations.recompute));
      for (ParetoPoint& point : points) add(share, *variant, point);
    }
  }
  // Only states are moved, in even steps.
  const size_t states = shares.size() > 1 ? shares.back().states : 0;
  const size_t steps = std::min(kStateSteps, states);
  for (size_t k = 1; k < steps; ++k) {
    const Share share = {.states = states * k / steps};
    STOWAGE_ASSIGN_OR_RETURN(
        const std::unique_ptr<Variant> variant,
        MakeVariant(optimizations.micro_batches.front(), share));
    STOWAGE_ASSIGN_OR_RETURN(std::vector<ParetoPoint> as_given,
                             variant->Frontier(Recompute::kNone));
    add(share, *variant, std::move(as_given.front()));
  }
  std::ranges::stable_sort(all, {}, [](const Candidate& each) {
    return std::pair(each.point.price.extra_cost, each.point.arena);
  });
  std::vector<ParetoPoint> kept;
  for (Candidate& each : all) {
    ParetoPoint& point = each.point;
    if (!kept.empty() && point.arena >= kept.back().arena) continue;
    // The lower bound on recomputation, over all numbers of micro-batches, with the same share.
    const Share share =
        std::ranges::count(shares, each.share) > 0 ? each.share : Share{};
    STOWAGE_ASSIGN_OR_RETURN(Variant* const fewest,
                             Get(optimizations.micro_batches.front(), share));
    double least = kAnyCost;
    for (const Way& way : ways) {
      const auto& [inside, micro_batches] = way;
      if (inside.level > 0 && !share.inside) continue;
      STOWAGE_ASSIGN_OR_RETURN(const bool is_made,
                               IsMade(micro_batches, share, kNoLimit));
      if (!is_made) continue;
      STOWAGE_ASSIGN_OR_RETURN(Variant* const as_they_are,
                               Get(micro_batches, share, inside));
      STOWAGE_ASSIGN_OR_RETURN(
          Variant* const lowest,
          Get(micro_batches, share, Lowest(ways, way, share)));
      STOWAGE_ASSIGN_OR_RETURN(const double extra,
                               lowest->LeastExtraCost(point.arena));
      least = std::min(least, as_they_are->cost() - fewest->cost() + extra);
    }
    point.price.least_extra_cost = share == each.share ? least : 0;
    kept.push_back(std::move(point));
  }
  return kept;
}

}  // namespace stowage::fit
