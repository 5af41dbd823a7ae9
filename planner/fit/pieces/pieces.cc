#include "planner/fit/pieces/pieces.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/index.h"
#include "base/strings.h"
#include "ir/layout.h"
#include "ir/op_def.h"

namespace stowage::fit {
namespace {

// Of each search, where there may be several, one for a number of pieces.
constexpr double kEffortOfEach = 0.5;

// The piece that a node is in; all are in one.
size_t PieceOf(const std::vector<NodeId>& begins, NodeId node) {
  const auto next = std::ranges::upper_bound(begins, node);
  STOWAGE_CHECK(next != begins.begin());
  return Index(next - begins.begin()) - 1;
}

// How many nodes of the whole step a node stands for.
int64_t CountOf(const PiecedStep& step, NodeId node) {
  return step.counts[PieceOf(step.begins, node)];
}

// The nodes of each piece that run. Views are left out: where one is taken is
// where it is first wanted, which may be in the next piece.
std::vector<std::vector<NodeId>> RunsOf(const PiecedStep& step) {
  std::vector<std::vector<NodeId>> runs(step.begins.size());
  for (NodeId id = 0; id < step.graph.num_nodes(); ++id) {
    if (GetOpDef(step.graph.node(id).op).is_view()) continue;
    runs[PieceOf(step.begins, id)].push_back(id);
  }
  return runs;
}

// Equal for pieces whose nodes have the same ops and types, in order.
uint64_t Likeness(const Graph& graph, const std::vector<NodeId>& nodes) {
  Fnv1a hash;
  for (const NodeId id : nodes) {
    const Node& node = graph.node(id);
    hash.Update(OpName(node.op));
    for (const ValueId result : node.results) {
      hash.Update(graph.value(result).type.ToString());
    }
  }
  return hash.digest();
}

Error Unlike(const PiecedStep& step, std::string_view why) {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[micro-batches] graph ", Quoted(step.graph.name()), " ",
                      why, "; expected a sample of the step to plan it by")};
}

// By name, or by the name of what a piece makes.
std::vector<std::string> NamesIn(const Graph& graph,
                                 const std::vector<std::string>& names,
                                 int64_t pieces) {
  std::vector<std::string> all;
  for (const std::string& name : names) {
    const size_t before = all.size();
    for (int64_t p = 1; p <= pieces && !graph.Find(name); ++p) {
      const std::string of_piece = StrCat(name, "/", p);
      if (graph.Find(of_piece)) all.push_back(of_piece);
    }
    if (all.size() == before) all.push_back(name);
  }
  return all;
}

// What runs again in many pieces, told once, by its name without the piece's.
std::vector<Remade> InAllPieces(std::vector<Remade> of_each) {
  std::vector<Remade> all;
  std::map<std::string, size_t, std::less<>> index;
  for (Remade& remade : of_each) {
    remade.name.resize(std::min(remade.name.size(), remade.name.rfind('/')));
    const auto [at, is_new] = index.try_emplace(remade.name, all.size());
    if (is_new) {
      all.push_back(std::move(remade));
      continue;
    }
    Remade& sum = all[at->second];
    sum.freed = std::max(sum.freed, remade.freed);
    sum.flops += remade.flops;
    sum.times += remade.times;
  }
  return all;
}

}  // namespace

Result<Script> StretchScript(const PiecedStep& sample, const Script& script,
                             const PiecedStep& step) {
  const std::vector<std::vector<NodeId>> of_sample = RunsOf(sample);
  std::map<uint64_t, size_t> kinds;
  for (size_t piece = 0; piece < of_sample.size(); ++piece) {
    kinds[Likeness(sample.graph, of_sample[piece])] = piece;
  }
  // As positions in their pieces.
  std::vector<Script> by_piece(of_sample.size());
  for (const Rerun& rerun : script) {
    const size_t piece = PieceOf(sample.begins, rerun.stage);
    const std::vector<NodeId>& runs = of_sample[piece];
    const auto place = [&](NodeId node) {
      return static_cast<NodeId>(std::ranges::lower_bound(runs, node) -
                                 runs.begin());
    };
    for (const NodeId node : {rerun.stage, rerun.node}) {
      if (std::ranges::binary_search(runs, node)) continue;
      return Unlike(sample, "runs a node of one piece again for another");
    }
    by_piece[piece].push_back({place(rerun.stage), place(rerun.node)});
  }
  Script stretched;
  size_t number = 0;
  for (const std::vector<NodeId>& runs : RunsOf(step)) {
    ++number;
    const auto kind = kinds.find(Likeness(step.graph, runs));
    if (kind == kinds.end()) {
      return Unlike(step, StrCat("has a piece, number ", number,
                                 ", that is like none of the sample's"));
    }
    for (const Rerun& rerun : by_piece[kind->second]) {
      stretched.push_back({runs[Index(rerun.stage)], runs[Index(rerun.node)]});
    }
  }
  return stretched;
}

MicroBatchPlanner::MicroBatchPlanner(std::vector<int64_t> pieces,
                                     PieceBuilder build, PlanOptions options,
                                     RecomputeOptions recompute)
    : pieces_(std::move(pieces)),
      build_(std::move(build)),
      options_(std::move(options)),
      recompute_(std::move(recompute)),
      samples_(pieces_.size()) {
  STOWAGE_CHECK(!pieces_.empty());
  options_.budget.reset();
}

Result<MicroBatchPlanner::Sample*> MicroBatchPlanner::GetSample(size_t index) {
  std::unique_ptr<Sample>& sample = samples_[index];
  if (sample) return sample.get();
  auto made = std::make_unique<Sample>();
  made->pieces = pieces_[index];
  STOWAGE_ASSIGN_OR_RETURN(made->step,
                           build_(made->pieces, Sampling::kOneOfAKind));
  const Graph& graph = made->step.graph;
  RecomputeOptions recompute = recompute_;
  recompute.always_kept = NamesIn(graph, recompute_.always_kept, made->pieces);
  recompute.always_remade =
      NamesIn(graph, recompute_.always_remade, made->pieces);
  // A sum of gradients is not the same in all pieces that one stands for.
  recompute.gradients =
      std::ranges::count(made->step.counts, 1) == std::ssize(made->step.counts);
  if (pieces_.size() > 1) recompute.effort = kEffortOfEach;
  // A node of the sample costs what all that it stands for cost.
  recompute.cost = [&step = made->step,
                    cost = recompute_.cost](const Graph& g) {
    std::vector<double> costs = cost ? cost(g) : FlopsOfNodes(g);
    for (NodeId id = 0; id < g.num_nodes(); ++id) {
      costs[Index(id)] *= static_cast<double>(CountOf(step, id));
    }
    return costs;
  };
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    made->flops += NodeFlops(graph, graph.node(id)) *
                   static_cast<double>(CountOf(made->step, id));
  }
  made->planner =
      std::make_unique<RecomputePlanner>(graph, options_, std::move(recompute));
  STOWAGE_ASSIGN_OR_RETURN(const Plan plan, made->planner->PlanAsGiven());
  made->arena = plan.arena_bytes();
  made->cost = made->planner->Cost();
  sample = std::move(made);
  return sample.get();
}

// The whole step, with what was chosen for its sample done in all its pieces.
Result<MicroBatchedPlan> MicroBatchPlanner::Make(const Sample& sample,
                                                 RecomputedPlan made) {
  MicroBatchedPlan plan{
      .pieces = sample.pieces, .flops = sample.flops, .cost = sample.cost};
  if (std::ranges::count(sample.step.counts, 1) ==
      std::ssize(sample.step.counts)) {
    plan.made = std::move(made);
    return plan;
  }
  STOWAGE_ASSIGN_OR_RETURN(const PiecedStep step,
                           build_(sample.pieces, Sampling::kAll));
  STOWAGE_ASSIGN_OR_RETURN(const Script script,
                           StretchScript(sample.step, made.script, step));
  RecomputePlanner planner(
      step.graph, options_,
      {.recompute = recompute_.recompute, .cost = recompute_.cost});
  STOWAGE_ASSIGN_OR_RETURN(plan.made, planner.PlanScript(script));
  plan.made.least_extra_cost = made.least_extra_cost;
  plan.made.remade = InAllPieces(std::move(plan.made.remade));
  return plan;
}

Result<MicroBatchedPlan> MicroBatchPlanner::PlanAsGiven() {
  STOWAGE_ASSIGN_OR_RETURN(Sample* const sample, GetSample(0));
  STOWAGE_ASSIGN_OR_RETURN(RecomputedPlan made,
                           sample->planner->PlanScript({}));
  return Make(*sample, std::move(made));
}

// The cheapest plan in so many pieces, if it is cheaper than `limit`. The whole
// step may be packed a little less well than its sample: then the next choice
// whose sample needs less is asked for.
Result<std::optional<MicroBatchedPlan>> MicroBatchPlanner::FitSample(
    Sample& sample, Bytes budget, double limit) {
  const std::optional<MicroBatchedPlan> none;
  for (Bytes target = budget;;) {
    Result<RecomputedPlan> made = sample.planner->PlanFor(target);
    if (!made.ok()) {
      if (made.error().code != ErrorCode::kBudgetTooSmall) return made.error();
      return none;
    }
    if (sample.cost + made->extra_cost >= limit) return none;
    target = made->plan.arena_bytes() - 1;
    STOWAGE_ASSIGN_OR_RETURN(MicroBatchedPlan plan,
                             Make(sample, *std::move(made)));
    if (plan.made.plan.arena_bytes() <= budget) {
      return std::optional(std::move(plan));
    }
  }
}

Result<MicroBatchedPlan> MicroBatchPlanner::PlanFor(
    std::optional<Bytes> budget) {
  if (!budget) {
    STOWAGE_ASSIGN_OR_RETURN(Sample* const sample, GetSample(0));
    STOWAGE_ASSIGN_OR_RETURN(RecomputedPlan made,
                             sample->planner->PlanFor(budget));
    return Make(*sample, std::move(made));
  }
  constexpr double kAny = std::numeric_limits<double>::infinity();
  // The fewest pieces that fit as they are.
  std::optional<MicroBatchedPlan> best;
  size_t next = 0;
  for (; next < pieces_.size() && !best; ++next) {
    STOWAGE_ASSIGN_OR_RETURN(Sample* const sample, GetSample(next));
    if (sample->arena > *budget) continue;
    STOWAGE_ASSIGN_OR_RETURN(best, FitSample(*sample, *budget, kAny));
  }
  // Fewer pieces save sums, and may cost more recomputation.
  if (recompute_.recompute == Recompute::kNone) next = 0;
  while (next > 0) {
    STOWAGE_ASSIGN_OR_RETURN(Sample* const sample, GetSample(--next));
    if (sample->arena <= *budget) continue;
    const double limit = best ? best->cost + best->made.extra_cost : kAny;
    STOWAGE_ASSIGN_OR_RETURN(const double least,
                             sample->planner->LeastExtraCost(*budget));
    if (sample->cost + least >= limit) continue;
    STOWAGE_ASSIGN_OR_RETURN(std::optional<MicroBatchedPlan> plan,
                             FitSample(*sample, *budget, limit));
    if (plan) {
      best = std::move(plan);
      continue;
    }
    STOWAGE_ASSIGN_OR_RETURN(
        const Bytes smallest,
        sample->planner->SmallestBudget(recompute_.recompute));
    if (smallest > *budget) break;  // still fewer need still more
  }
  if (best) return *std::move(best);
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<Least> least,
                           SmallestWithin(kNoLimit, recompute_.recompute));
  Sample& sample = *samples_[least->index];
  STOWAGE_ASSIGN_OR_RETURN(best, FitSample(sample, *budget, kAny));
  if (!best) return Refusal(sample, *budget);
  return *std::move(best);
}

// The number of pieces, by its index, that needs the least, and how much, if that
// is at most `most`. The more, the less, but for the sums of gradients: all
// numbers are tried until one needs more, and one piece, which has no sums.
Result<std::optional<MicroBatchPlanner::Least>>
MicroBatchPlanner::SmallestWithin(Bytes most, Recompute recompute) {
  std::optional<Least> best;
  bool falls = true;
  for (size_t index = pieces_.size(); index-- > 0;) {
    if (!falls && index > 0) continue;
    STOWAGE_ASSIGN_OR_RETURN(Sample* const sample, GetSample(index));
    if (recompute == Recompute::kNone) {
      if (sample->arena > most) continue;
    } else if (most < kNoLimit) {
      STOWAGE_ASSIGN_OR_RETURN(const double least,
                               sample->planner->LeastExtraCost(most));
      if (std::isinf(least)) continue;
    }
    STOWAGE_ASSIGN_OR_RETURN(const Bytes bytes, SmallestOf(*sample, recompute));
    falls = bytes <= most;
    if (!falls) continue;
    best = {.index = index, .bytes = bytes};
    most = bytes - 1;
  }
  return best;
}

// What the sample and the whole step need.
Result<Bytes> MicroBatchPlanner::SmallestOf(Sample& sample,
                                            Recompute recompute) {
  STOWAGE_ASSIGN_OR_RETURN(RecomputedPlan made,
                           sample.planner->SmallestPlan(recompute));
  const Bytes bytes = made.plan.arena_bytes();
  STOWAGE_ASSIGN_OR_RETURN(const MicroBatchedPlan plan,
                           Make(sample, std::move(made)));
  return std::max(bytes, plan.made.plan.arena_bytes());
}

Result<std::optional<Bytes>> MicroBatchPlanner::SmallestBudgetWithin(
    Bytes most, Recompute recompute) {
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<Least> least,
                           SmallestWithin(most, recompute));
  if (!least) return std::optional<Bytes>();
  return std::optional<Bytes>(least->bytes);
}

Result<Bytes> MicroBatchPlanner::SmallestBudget(Recompute recompute) {
  STOWAGE_ASSIGN_OR_RETURN(const std::optional<Bytes> least,
                           SmallestBudgetWithin(kNoLimit, recompute));
  return *least;
}

Result<Bytes> MicroBatchPlanner::SmallestBudget(Recompute recompute,
                                                int64_t pieces) {
  const auto at = std::ranges::find(pieces_, pieces);
  STOWAGE_CHECK(at != pieces_.end());
  STOWAGE_ASSIGN_OR_RETURN(Sample* const sample,
                           GetSample(Index(at - pieces_.begin())));
  return SmallestOf(*sample, recompute);
}

Error MicroBatchPlanner::Refusal(const Sample& sample, Bytes budget) {
  const Result<RecomputedPlan> refused = sample.planner->PlanFor(budget);
  if (refused.ok()) {  // but the whole step needs more
    Result<RecomputedPlan> made =
        sample.planner->SmallestPlan(recompute_.recompute);
    if (!made.ok()) return made.error();
    const Result<MicroBatchedPlan> plan = Make(sample, *std::move(made));
    if (!plan.ok()) return plan.error();
    PlanOptions options = options_;
    options.budget = budget;
    const Result<Plan> whole = PlanMemory(plan->made.graph, options);
    STOWAGE_CHECK(!whole.ok());
    return whole.error();
  }
  Error error = refused.error();
  if (sample.pieces > 1) {
    error.message += StrCat(", the batch in ", sample.pieces, " pieces");
  }
  return error;
}

Result<std::vector<MicroBatchedPoint>> MicroBatchPlanner::Frontier() {
  std::vector<MicroBatchedPoint> all;
  STOWAGE_ASSIGN_OR_RETURN(Sample* const first, GetSample(0));
  for (size_t index = 0; index < pieces_.size(); ++index) {
    STOWAGE_ASSIGN_OR_RETURN(Sample* const sample, GetSample(index));
    STOWAGE_ASSIGN_OR_RETURN(std::vector<FrontierPoint> points,
                             sample->planner->Frontier());
    for (FrontierPoint& point : points) {
      point.extra_cost += sample->cost - first->cost;
      point.extra_flops = sample->flops - first->flops;
      int64_t nodes = 0;
      for (const Rerun& rerun : point.script) {
        const int64_t count = CountOf(sample->step, rerun.node);
        const Node& node = sample->step.graph.node(rerun.node);
        nodes += count;
        point.extra_flops +=
            static_cast<double>(count) * NodeFlops(sample->step.graph, node);
      }
      point.recomputed_nodes = static_cast<int>(nodes);
      point.extra_percent =
          100 * point.extra_flops / std::max(first->flops, 1.0);
      all.push_back({sample->pieces, std::move(point)});
    }
  }
  std::ranges::stable_sort(all, {}, [](const MicroBatchedPoint& each) {
    return std::pair(each.point.extra_cost, each.point.arena);
  });
  std::vector<MicroBatchedPoint> kept;
  for (MicroBatchedPoint& each : all) {
    FrontierPoint& point = each.point;
    if (!kept.empty() && point.arena >= kept.back().point.arena) continue;
    point.least_extra_cost = std::numeric_limits<double>::infinity();
    for (const auto& sample : samples_) {
      STOWAGE_ASSIGN_OR_RETURN(const double least,
                               sample->planner->LeastExtraCost(point.arena));
      point.least_extra_cost =
          std::min(point.least_extra_cost, sample->cost - first->cost + least);
    }
    kept.push_back(std::move(each));
  }
  return kept;
}

}  // namespace stowage::fit
