#include "planner/fit/variant.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/bodies.h"
#include "ir/layout.h"
#include "ir/uses.h"
#include "planner/fit/cost.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/fit/recompute/simulation.h"

namespace stowage::fit {
namespace {

// Shares of the search effort: of a step in micro-batches, of which many candidates are searched;
// and of a sample of one micro-batch, a third of a sample of three.
constexpr double kEffortInMicroBatches = 0.5;
constexpr double kEffortInLoop = 0.17;
// With recomputation in bodies, at one of several levels.
constexpr double kEffortOfLevel = 0.1;

// The cost by `cost` of copies in the bodies of `node`, over all iterations; of several bodies, the
// largest. 0 if costs are operations.
double CostOfCopies(const Node& node, const CostFn& cost) {
  double most = 0;
  if (!cost) return most;
  for (const auto& body : BodiesOf(node)) {
    const std::vector<double> costs = cost(*body);
    double sum = 0;
    for (NodeId id = 0; id < body->num_nodes(); ++id) {
      const Node& inner = body->node(id);
      if (!BodiesOf(inner).empty()) {
        sum += CostOfCopies(inner, cost);
      } else if (BytesCopied(*body, inner) > 0) {
        sum += costs[Index(id)];
      }
    }
    most = std::max(most, sum);
  }
  return static_cast<double>(IterationsOf(node)) * most;
}

// The host use of the whole step of a sample.
HostUse HostUseOf(const SampledStep& sample) {
  const Graph& graph = sample.graph;
  HostUse use = FindHostUse(graph);
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const int64_t more = CountOf(sample, id) - 1;
    const Node& node = graph.node(id);
    use.values += static_cast<int>(more) * ValuesOffloaded(node);
    use.bytes_per_step += more * BytesCopied(graph, node);
  }
  return use;
}

// The node with a result of this name.
NodeId MakerOf(const Graph& graph, const std::string& name) {
  return graph.value(*graph.Find(name)).producer;
}

// Values made once, before the first micro-batch, are not recomputed in micro-batches.
void AlwaysKeepBefore(const SampledStep& step, std::vector<std::string>* kept) {
  const Graph& graph = step.graph;
  const auto is_before = [&](const Node& node) {
    return !step.before.empty() && node.origin == step.before &&
           node.phase == Phase::kForward;
  };
  if (std::ranges::none_of(graph.nodes(), is_before)) return;
  const Layouts layouts = ComputeLayouts(graph);
  const Uses uses(graph, layouts);
  for (const Node& node : graph.nodes()) {
    if (!is_before(node)) continue;
    for (const ValueId id : node.results) {
      if (MayBeDropped(graph, layouts, uses, id)) {
        kept->push_back(graph.value(id).name);
      }
    }
  }
}

}  // namespace

Result<std::unique_ptr<Variant>> Variant::Make(int64_t micro_batches,
                                               SampledStep sample,
                                               StepBuilder build, Change change,
                                               const Options& options) {
  std::unique_ptr<Variant> variant(new Variant);
  variant->micro_batches_ = micro_batches;
  variant->sample_ = std::move(sample);
  variant->build_ = std::move(build);
  variant->change_ = std::move(change);
  variant->options_ = options;
  variant->flops_ = FlopsOf(variant->sample_);
  const Graph given = variant->sample_.graph;
  STOWAGE_ASSIGN_OR_RETURN(variant->in_bodies_,
                           variant->change_(variant->sample_));
  const SampledStep& step = variant->sample_;

  RecomputeOptions recompute = options.recompute;
  recompute.always_kept =
      NamesInMicroBatches(step.graph, recompute.always_kept, micro_batches);
  recompute.always_recomputed = NamesInMicroBatches(
      step.graph, recompute.always_recomputed, micro_batches);
  AlwaysKeepBefore(step, &recompute.always_kept);
  // What iterations made again do not hand back has no name any more.
  std::erase_if(recompute.always_recomputed, [&](const std::string& name) {
    return !variant->in_bodies_.loops.empty() && given.Find(name) &&
           !step.graph.Find(name);
  });
  // Values made in a body are kept there.
  std::erase_if(recompute.always_kept, [&](const std::string& name) {
    return !given.Find(name) && IsMadeInBody(given, name);
  });
  // Gradient sums differ among the micro-batches that one represents.
  recompute.gradients = IsWhole(step);
  if (step.loop) {
    recompute.effort *= kEffortInLoop;
  } else if (micro_batches > 1) {
    recompute.effort *= kEffortInMicroBatches;
  }
  if (!variant->in_bodies_.nodes.empty()) recompute.effort *= kEffortOfLevel;
  // Nodes with bodies cost as before, without copies, plus the recomputation in them: of iterations,
  // a share of the forward loop.
  std::map<std::string, double> of_nodes;  // by their first results
  const InBodies& in_bodies = variant->in_bodies_;
  if (!in_bodies.loops.empty() || !in_bodies.nodes.empty()) {
    const std::vector<double> costs =
        CostsOfNodes(given, options.recompute.cost, /*per_byte=*/0);
    const auto of_given = [&](const std::string& name) {
      return costs[Index(MakerOf(given, name))];
    };
    // The node with first result `now` costs `before`, and `again` for recomputation.
    const auto add = [&](const std::string& now, double before, double again) {
      of_nodes.try_emplace(now, before).first->second += again;
      const NodeId node = MakerOf(step.graph, now);
      variant->in_bodies_cost_ +=
          static_cast<double>(CountOf(step, node)) * again;
    };
    for (const RecomputedLoop& loop : in_bodies.loops) {
      const double of_forward = of_given(loop.told.name);
      of_nodes.try_emplace(loop.forward_now, of_forward);
      add(loop.backward_now, of_given(loop.backward), loop.part * of_forward);
    }
    for (const LoweredNode& each : in_bodies.nodes) {
      // The cost of a loop whose iterations are recomputed is known already.
      const bool is_known = of_nodes.contains(each.node);
      add(each.node, is_known ? 0 : of_given(each.node), each.extra_cost);
    }
  }
  // A node of the sample costs as much as all nodes that it represents.
  recompute.cost = [&step, of_nodes = std::move(of_nodes),
                    cost = options.recompute.cost,
                    per_byte = options.cost_per_byte](const Graph& graph) {
    std::vector<double> costs = CostsOfNodes(graph, cost, per_byte);
    for (const auto& [name, of_node] : of_nodes) {
      if (!graph.Find(name)) continue;
      const NodeId node = MakerOf(graph, name);
      const auto copied =
          static_cast<double>(BytesCopied(graph, graph.node(node)));
      costs[Index(node)] =
          of_node + per_byte * copied + CostOfCopies(graph.node(node), cost);
    }
    for (NodeId id = 0; id < graph.num_nodes(); ++id) {
      costs[static_cast<size_t>(id)] *= static_cast<double>(CountOf(step, id));
    }
    return costs;
  };
  variant->choices_ = std::make_unique<RecomputeChoices>(
      step.graph, options.plan, std::move(recompute));
  STOWAGE_ASSIGN_OR_RETURN(const Plan plan, variant->choices_->PlanAsGiven());
  variant->arena_ = plan.arena_bytes();
  variant->cost_ = variant->choices_->Cost();
  variant->given_ = {.least_arena = variant->arena_, .arena = variant->arena_};
  return variant;
}

// Whether the step without recomputation is a choice.
bool Variant::IsAsGiven(Recompute recompute) const {
  return recompute == Recompute::kNone ||
         options_.recompute.always_recomputed.empty();
}

bool Variant::IsAllowed(const RecomputeChoice& choice, bool is_first,
                        Recompute recompute) const {
  switch (recompute) {
    case Recompute::kNone:
      return choice.script.empty();
    case Recompute::kCheap:
      return is_first || choice.cost <= kCheapShare * choices_->Cost();
    case Recompute::kAuto:
      return true;
  }
  STOWAGE_CHECK(false);
}

// The allowed choices, a prefix of all.
Result<std::span<RecomputeChoice>> Variant::Choices(Recompute recompute) {
  if (recompute == Recompute::kNone) return std::span(&given_, 1);
  STOWAGE_ASSIGN_OR_RETURN(const std::span<RecomputeChoice> all,
                           choices_->All());
  size_t count = 0;
  while (count < all.size() && IsAllowed(all[count], count == 0, recompute)) {
    ++count;
  }
  return all.first(count);
}

Status Variant::PrepareChoices() {
  STOWAGE_RETURN_IF_ERROR(choices_->All());
  return {};
}

Result<Bytes> Variant::SampleArena(RecomputeChoice& choice) {
  if (!choice.arena) {
    STOWAGE_ASSIGN_OR_RETURN(const RecomputedGraph made,
                             choices_->Make(choice.script));
    choice.arena = made.plan.arena_bytes();
  }
  return *choice.arena;
}

// The step whose loop repeats the micro-batch of the sample, with its choice.
Result<RecomputedGraph> Variant::InLoop(RecomputeChoice& choice) {
  STOWAGE_ASSIGN_OR_RETURN(RecomputedGraph made, choices_->Make(choice.script));
  choice.arena = made.plan.arena_bytes();
  const int64_t times = *std::ranges::max_element(sample_.counts);
  STOWAGE_ASSIGN_OR_RETURN(
      made.graph,
      RepeatMicroBatch(made.graph, *sample_.loop, times, sample_.before));
  PlanOptions options = options_.plan;
  options.packer = made.packer;
  STOWAGE_ASSIGN_OR_RETURN(made.plan, PlanMemory(made.graph, options));
  made.nodes_again *= static_cast<int>(times);
  made.flops_again *= static_cast<double>(times);
  for (RecomputedNode& recomputed : made.recomputed) {
    recomputed.times *= static_cast<int>(times);
    recomputed.flops *= static_cast<double>(times);
  }
  made.recomputed = InAllMicroBatches(std::move(made.recomputed));
  return made;
}

// The recomputation of iterations and in bodies, of the whole step.
RecomputedGraph Variant::InBodiesAgain() const {
  RecomputedGraph again;
  const auto add = [&](const std::string& node, int nodes, double flops,
                       std::span<const RecomputedNode> told) {
    const int64_t count = CountOf(sample_, MakerOf(sample_.graph, node));
    again.nodes_again += static_cast<int>(count) * nodes;
    again.flops_again += static_cast<double>(count) * flops;
    for (RecomputedNode recomputed : told) {
      recomputed.times *= static_cast<int>(count);
      recomputed.flops *= static_cast<double>(count);
      again.recomputed.push_back(std::move(recomputed));
    }
  };
  for (const RecomputedLoop& loop : in_bodies_.loops) {
    add(loop.forward_now, loop.nodes_again, loop.told.flops, {&loop.told, 1});
  }
  for (const LoweredNode& each : in_bodies_.nodes) {
    add(each.node, each.nodes_again, each.flops_again, each.told);
  }
  return again;
}

// The whole step, with the choice of its sample applied to all micro-batches.
Result<FittedStep> Variant::Whole(RecomputeChoice& choice) {
  FittedStep step;
  step.price = {.micro_batches = micro_batches_,
                .extra_cost = choice.cost + in_bodies_cost_};
  step.flops = flops_;
  step.cost = cost_ - in_bodies_cost_;
  PassClock clock;
  const auto tell = [&](std::string_view name, bool changed, Bytes arena) {
    step.passes.push_back({.name = std::string(name),
                           .applied = changed,
                           .changed = changed,
                           .arena = arena,
                           .seconds = clock.Lap()});
  };
  RecomputedGraph made;
  if (IsWhole(sample_)) {
    tell("micro_batches", micro_batches_ > 1, 0);
    tell("offload", FindHostUse(sample_.graph).values > 0, arena_);
    STOWAGE_ASSIGN_OR_RETURN(made, choices_->Make(choice.script));
    choice.arena = made.plan.arena_bytes();
  } else if (sample_.loop) {
    tell("micro_batches", true, 0);
    STOWAGE_ASSIGN_OR_RETURN(made, InLoop(choice));
    tell("offload", FindHostUse(made.graph).values > 0, arena_);
  } else {
    STOWAGE_ASSIGN_OR_RETURN(SampledStep whole,
                             build_(micro_batches_, Sampling::kAll));
    tell("micro_batches", true, 0);
    STOWAGE_RETURN_IF_ERROR(change_(whole));
    tell("offload", FindHostUse(whole.graph).values > 0, arena_);
    STOWAGE_ASSIGN_OR_RETURN(const Script script,
                             StretchScript(sample_, choice.script, whole));
    RecomputeChoices of_whole(whole.graph, options_.plan, {});
    STOWAGE_ASSIGN_OR_RETURN(made, of_whole.Make(script));
    made.recomputed = InAllMicroBatches(std::move(made.recomputed));
  }
  choice.whole_arena = made.plan.arena_bytes();
  step.price.host = FindHostUse(made.graph);
  RecomputedGraph in_bodies = InBodiesAgain();
  // Changes to bodies apply to all micro-batches, even if the sample has each of them.
  if (micro_batches_ > 1)
    in_bodies.recomputed = InAllMicroBatches(std::move(in_bodies.recomputed));
  made.nodes_again += in_bodies.nodes_again;
  made.flops_again += in_bodies.flops_again;
  std::ranges::move(in_bodies.recomputed, std::back_inserter(made.recomputed));
  if (!IsWhole(sample_))
    made.recomputed = InAllMicroBatches(std::move(made.recomputed));
  std::ranges::stable_sort(made.recomputed, std::greater<>(),
                           &RecomputedNode::freed);
  tell("recompute", made.nodes_again > 0, *choice.whole_arena);
  step.graph = std::move(made.graph);
  step.plan = std::move(made.plan);
  step.recomputed = std::move(made.recomputed);
  step.price.recomputed_nodes = made.nodes_again;
  step.price.extra_flops = made.flops_again;
  if (flops_ > 0) {
    step.price.extra_percent = 100 * step.price.extra_flops / flops_;
  }
  return step;
}

// Known arenas are not packed again.
Result<std::optional<FittedStep>> Variant::FitChoice(RecomputeChoice& choice,
                                                     Bytes budget) {
  const std::optional<FittedStep> none;
  if (choice.least_arena > budget) return none;
  if (choice.arena.value_or(0) > budget) return none;
  if (choice.whole_arena.value_or(0) > budget) return none;
  if (!IsWhole(sample_)) {
    STOWAGE_ASSIGN_OR_RETURN(const Bytes arena, SampleArena(choice));
    if (arena > budget) return none;
  }
  STOWAGE_ASSIGN_OR_RETURN(FittedStep step, Whole(choice));
  if (step.plan.arena_bytes() > budget) return none;
  return std::optional(std::move(step));
}

Result<std::optional<FittedStep>> Variant::FitAsGiven(Bytes budget,
                                                      Recompute recompute,
                                                      double limit) {
  if (cost_ >= limit || !IsAsGiven(recompute)) {
    return std::optional<FittedStep>();
  }
  return FitChoice(given_, budget);
}

Result<std::optional<FittedStep>> Variant::Fit(Bytes budget,
                                               Recompute recompute,
                                               double limit) {
  const std::optional<FittedStep> none;
  STOWAGE_ASSIGN_OR_RETURN(std::optional<FittedStep> as_given,
                           FitAsGiven(budget, recompute, limit));
  if (as_given || recompute == Recompute::kNone) return as_given;
  STOWAGE_ASSIGN_OR_RETURN(const double least, LeastExtraCost(budget));
  if (std::isinf(least) || cost_ + least >= limit) return none;
  STOWAGE_ASSIGN_OR_RETURN(const std::span<RecomputeChoice> choices,
                           Choices(recompute));
  for (RecomputeChoice& choice : choices) {
    if (cost_ + choice.cost >= limit) return none;
    STOWAGE_ASSIGN_OR_RETURN(std::optional<FittedStep> step,
                             FitChoice(choice, budget));
    if (!step) continue;
    if (budget < kNoLimit)
      step->price.least_extra_cost = in_bodies_cost_ + least;
    return step;
  }
  return none;
}

// The larger arena of the whole step and its sample, if that is at most `most`.
Result<std::optional<Bytes>> Variant::Need(RecomputeChoice& choice,
                                           Bytes most) {
  const std::optional<Bytes> none;
  STOWAGE_ASSIGN_OR_RETURN(const Bytes of_sample, SampleArena(choice));
  if (of_sample > most) return none;
  if (!choice.whole_arena) {
    STOWAGE_RETURN_IF_ERROR(Whole(choice));
  }
  const Bytes need = std::max(of_sample, *choice.whole_arena);
  return need > most ? none : std::optional(need);
}

Result<std::optional<Bytes>> Variant::SmallestAsGiven(Recompute recompute,
                                                      Bytes most) {
  if (!IsAsGiven(recompute)) return std::optional<Bytes>();
  return Need(given_, most);
}

Result<std::optional<Bytes>> Variant::Smallest(Recompute recompute,
                                               Bytes most) {
  std::optional<Bytes> smallest;
  STOWAGE_ASSIGN_OR_RETURN(const std::span<RecomputeChoice> choices,
                           Choices(recompute));
  for (auto choice = choices.rbegin(); choice != choices.rend(); ++choice) {
    if (choice->least_arena > most) break;
    STOWAGE_ASSIGN_OR_RETURN(const std::optional<Bytes> need,
                             Need(*choice, most));
    if (!need) continue;
    smallest = need;
    most = *need - 1;
  }
  return smallest;
}

Result<double> Variant::LeastCost(Bytes budget, Recompute recompute,
                                  double limit) {
  if (recompute == Recompute::kNone) {
    return arena_ <= budget ? cost_ : kAnyCost;
  }
  if (arena_ <= budget && IsAsGiven(recompute)) return cost_;
  STOWAGE_ASSIGN_OR_RETURN(const double least,
                           choices_->LeastExtraCost(budget, limit - cost_));
  return cost_ + least;
}

Result<Bytes> Variant::LeastArena(Recompute recompute) {
  if (recompute == Recompute::kNone) return arena_;
  return choices_->LeastArena();
}

Result<std::vector<ParetoPoint>> Variant::Frontier(Recompute recompute) {
  STOWAGE_ASSIGN_OR_RETURN(const std::span<RecomputeChoice> choices,
                           Choices(recompute));
  const HostUse host = HostUseOf(sample_);
  const RecomputedGraph in_bodies = InBodiesAgain();
  std::vector<ParetoPoint> points;
  for (RecomputeChoice& choice : choices) {
    STOWAGE_ASSIGN_OR_RETURN(const Bytes arena, SampleArena(choice));
    if (!points.empty() && arena >= points.back().arena) continue;
    Price price{.micro_batches = micro_batches_,
                .host = host,
                .recomputed_nodes = in_bodies.nodes_again,
                .extra_flops = in_bodies.flops_again,
                .extra_cost = choice.cost};
    for (const Rerun& rerun : choice.script) {
      const int64_t count = CountOf(sample_, rerun.node);
      const Node& node = sample_.graph.node(rerun.node);
      price.host.bytes_per_step += count * BytesCopied(sample_.graph, node);
      if (node.op == OpKind::kReload) continue;
      price.recomputed_nodes += static_cast<int>(count);
      price.extra_flops +=
          static_cast<double>(count) * NodeFlops(sample_.graph, node);
    }
    points.push_back({.arena = arena, .price = price});
  }
  return points;
}

}  // namespace stowage::fit
