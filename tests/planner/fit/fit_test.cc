// Micro-batches, recomputation and what is kept on the host, chosen together for a
// budget.

#include "planner/fit/fit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/instances.h"

namespace stowage::fit {
namespace {

using testing::Instances;
using testing::StepOf;
using testing::StepsOf;
using testing::TakesAllInstances;
using testing::TinyGpt;

// Nothing is moved.
MemoryOptimizations InMicroBatches(std::vector<int64_t> micro_batches,
                                   Recompute recompute = Recompute::kAuto) {
  return {.micro_batches = std::move(micro_batches),
          .recompute = recompute,
          .offload = OffloadChoice::kNone};
}

// How long is searched: under the sanitizers less, but in the same way.
const double kEffort = TakesAllInstances() ? 1 : 0.1;

StepFitter FitterOf(const Graph& step, MemoryOptimizations optimizations = {}) {
  return StepFitter(OfGraph(step), {.optimizations = std::move(optimizations),
                                    .effort = kEffort});
}

Graph Mlp(int64_t batch) {
  return *BuildModel("mlp", ModelPurpose::kTrain, {.batch = batch});
}

Bytes ArenaOf(const Graph& graph) {
  const Result<Plan> plan = PlanMemory(graph);
  REQUIRE(plan.ok());
  return plan->arena_bytes();
}

Graph TinyGptStep(int64_t batch) {
  return StepsOf(TinyGpt, batch)(1, Sampling::kAll).value().graph;
}

TEST_CASE(
    "micro-batches and recomputation together reach what neither does alone") {
  const std::vector<int64_t> all = {1, 2, 4, 8};
  StepFitter any(StepsOf(TinyGpt, 8),
                 {.optimizations = InMicroBatches(all), .effort = kEffort});
  const auto least = [&](const MemoryOptimizations& optimizations) {
    const Result<Bytes> bytes = any.SmallestBudget(optimizations);
    REQUIRE_MESSAGE(bytes.ok(), bytes.error().message);
    return *bytes;
  };
  const Bytes together = least(InMicroBatches(all));
  CHECK(together < least(InMicroBatches(all, Recompute::kNone)));
  CHECK(together < least(InMicroBatches({1})));
  CHECK(least(InMicroBatches(all, Recompute::kNone)) <
        least(InMicroBatches({1}, Recompute::kNone)));

  const Result<FittedStep> fitted = any.Fit(together);
  REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
  CHECK(fitted->price.micro_batches > 1);
  CHECK(fitted->plan.arena_bytes() <= together);
  CHECK(fitted->price.recomputed_nodes > 0);
  CHECK(ValidatePlan(fitted->graph, fitted->plan).empty());

  const Result<FittedStep> refused = any.Fit(together - 1);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
  CHECK(refused.error().message.ends_with(StrCat(
      " with recompute and ", fitted->price.micro_batches, " micro-batches")));
}

TEST_CASE("a larger budget never costs more, micro-batches or not") {
  StepFitter fitter(
      StepsOf(TinyGpt, 8),
      {.optimizations = InMicroBatches({1, 2, 4, 8}), .effort = kEffort});
  const Graph step = TinyGptStep(8);
  const Bytes given = ArenaOf(step);
  const Result<Bytes> smallest = fitter.SmallestBudget();
  REQUIRE(smallest.ok());
  double last = std::numeric_limits<double>::infinity();
  const int steps = Instances(12);
  for (int k = 0; k <= steps; ++k) {
    const Bytes budget = *smallest + (given - *smallest) * k / steps;
    const Result<FittedStep> fitted = fitter.Fit(budget);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    CHECK(fitted->plan.arena_bytes() <= budget);
    CHECK(fitted->total_cost() <= last);
    // Counted on the step that will run, not on its sample.
    CHECK(GraphFlops(fitted->graph) == doctest::Approx(fitted->total_cost()));
    last = fitted->total_cost();
  }
  CHECK(last == doctest::Approx(GraphFlops(step)));
}

TEST_CASE("the frontier falls in bytes as it rises in cost, above the bound") {
  StepFitter fitter(
      StepsOf(TinyGpt, 8),
      {.optimizations = InMicroBatches({1, 8}), .effort = kEffort});
  const Result<std::vector<ParetoPoint>> frontier = fitter.Frontier();
  REQUIRE(frontier.ok());
  REQUIRE(frontier->size() > 2);
  CHECK(frontier->front().price.micro_batches == 1);
  CHECK(frontier->front().price.extra_cost == 0);
  CHECK(frontier->back().price.micro_batches == 8);
  CHECK(frontier->back().arena == *fitter.SmallestBudget());
  for (size_t k = 0; k < frontier->size(); ++k) {
    const Price& price = (*frontier)[k].price;
    CHECK(price.least_extra_cost <= price.extra_cost * (1 + 1e-9) + 1e-9);
    CHECK(price.extra_flops == doctest::Approx(price.extra_cost));
    if (k == 0) continue;
    CHECK((*frontier)[k].arena < (*frontier)[k - 1].arena);
    CHECK(price.extra_cost > (*frontier)[k - 1].price.extra_cost);
  }
}

TEST_CASE("a name means the value in every micro-batch") {
  MemoryOptimizations optimizations = InMicroBatches({4});
  optimizations.always_recomputed = {"h.0.mlp.gelu"};
  StepFitter fitter(StepsOf(TinyGpt, 8), {.optimizations = optimizations});
  const Result<FittedStep> fitted = fitter.Fit(std::nullopt);
  REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
  int again = 0;  // in the body that runs four times
  for (const Node& node : fitted->graph.nodes()) {
    for (const auto& body : BodiesOf(node)) {
      for (const ValueInfo& value : body->values()) {
        again += value.name.starts_with("h.0.mlp.gelu") &&
                 value.name.ends_with("~recomputed");
      }
    }
  }
  CHECK(again == 1);
  // Told once, of all micro-batches.
  int told = 0;
  double flops = 0;
  for (const RecomputedNode& recomputed : fitted->recomputed) {
    told += recomputed.name == "h.0.mlp.gelu";
    if (recomputed.name == "h.0.mlp.gelu") CHECK(recomputed.times == 4);
    flops += recomputed.flops;
  }
  CHECK(told == 1);
  CHECK(flops == doctest::Approx(fitted->price.extra_flops));

  optimizations.always_recomputed = {"h.9.mlp.gelu"};
  const Result<FittedStep> unknown =
      StepFitter(StepsOf(TinyGpt, 8), {.optimizations = optimizations})
          .Fit(std::nullopt);
  REQUIRE(!unknown.ok());
  CHECK(unknown.error().code == ErrorCode::kNotFound);
}

TEST_CASE("nothing is moved where the step fits") {
  const Graph step = StepOf("mlp", {.batch = 8});
  const Bytes arena = ArenaOf(step);
  for (const std::optional<Bytes> budget :
       {std::optional<Bytes>(), std::optional<Bytes>(arena)}) {
    const auto fitted = FitterOf(step).Fit(budget);
    REQUIRE(fitted.ok());
    CHECK(Equal(fitted->graph, step));
    CHECK(FindHostUse(fitted->graph).values == 0);
    CHECK(fitted->price.host.values == 0);
  }
}

TEST_CASE("a step as given has no optimizations drawn, whatever the budget") {
  const Graph step = StepOf("mlp", {.batch = 8});
  StepFitter fitter = FitterOf(step);
  REQUIRE(fitter.Fit(*fitter.SmallestBudget()).ok());
  const auto given = fitter.AsGiven();
  REQUIRE(given.ok());
  CHECK(Equal(given->graph, step));
  CHECK(given->plan.arena_bytes() == ArenaOf(step));
  CHECK(given->total_cost() == GraphFlops(step));
}

TEST_CASE("a larger budget never costs more, and one byte too few is refused") {
  for (const Recompute recompute :
       Instances<Recompute>({Recompute::kAuto, Recompute::kNone})) {
    const Graph step = StepOf("gpt-nano", {.batch = 2, .seq = 32});
    const Bytes arena = ArenaOf(step);
    StepFitter fitter = FitterOf(step, {.recompute = recompute});
    const auto smallest = fitter.SmallestBudget();
    REQUIRE(smallest.ok());
    double last = std::numeric_limits<double>::infinity();
    bool moves = false;
    const int steps = Instances(24);
    for (int k = 0; k <= steps; ++k) {
      const Bytes budget = *smallest + (arena - *smallest) * k / steps;
      INFO("budget ", budget);
      const auto fitted = fitter.Fit(budget);
      REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
      CHECK(fitted->plan.arena_bytes() <= budget);
      CHECK(ValidatePlan(fitted->graph, fitted->plan).empty());
      CHECK(fitted->total_cost() <= last);
      last = fitted->total_cost();
      const HostUse use = FindHostUse(fitted->graph);
      CHECK(fitted->price.host.values == use.values);
      CHECK(fitted->price.host.bytes_per_step == use.bytes_per_step);
      CHECK(fitted->total_cost() ==
            doctest::Approx(GraphFlops(fitted->graph) +
                            kOffloadFlopsPerByte *
                                static_cast<double>(use.bytes_per_step)));
      moves |= use.values > 0;
      if (recompute == Recompute::kNone) {
        CHECK(fitted->price.recomputed_nodes == 0);
      }
    }
    CHECK(last == doctest::Approx(GraphFlops(step)));
    CHECK(moves);
    const auto refused = fitter.Fit(*smallest - 1);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
    CHECK(refused.error().message.ends_with(StrCat(
        ", or ", FormatBytes(*smallest), " (", *smallest, " bytes) with ",
        recompute == Recompute::kNone ? "" : "recompute and ", "offload")));
    CHECK(*fitter.SmallestBudget(NoOptimizations()) == arena);
  }
}

TEST_CASE("each choice that is looked at is told, and changes nothing") {
  const Graph step = StepOf("gpt-nano", {.batch = 2, .seq = 32});
  std::atomic<int> choices = 0;
  FitOptions options = {.optimizations = InMicroBatches({1}), .effort = 0.05};
  StepFitter silent(OfGraph(step), options);
  options.on_choice = [&] { ++choices; };
  StepFitter told(OfGraph(step), options);
  const auto smallest = silent.SmallestBudget();
  REQUIRE(smallest.ok());
  CHECK(choices == 0);
  CHECK(*told.SmallestBudget() == *smallest);
  CHECK(choices > 100);
  const auto a = silent.Fit(*smallest);
  const auto b = told.Fit(*smallest);
  REQUIRE(a.ok());
  REQUIRE(b.ok());
  CHECK(a->price.recomputed_nodes > 0);
  // Of what runs again nothing is saved.
  CHECK(a->plan.no_reuse == PlanMemory(step, {})->no_reuse);
  CHECK(Equal(a->graph, b->graph));
  CHECK(a->plan.arena_bytes() == b->plan.arena_bytes());
}

TEST_CASE("the frontier lists what budgets cost, copies included") {
  const Graph step = StepOf("gpt-nano", {.batch = 2, .seq = 32});
  for (const Recompute recompute :
       Instances<Recompute>({Recompute::kAuto, Recompute::kNone})) {
    StepFitter fitter = FitterOf(step, {.recompute = recompute});
    const auto frontier = fitter.Frontier();
    REQUIRE_MESSAGE(frontier.ok(), frontier.error().message);
    REQUIRE(frontier->size() > 10);
    CHECK(frontier->front().arena == ArenaOf(step));
    CHECK(frontier->front().price.extra_cost == 0);
    CHECK(frontier->front().price.host.values == 0);
    CHECK(frontier->back().arena == *fitter.SmallestBudget());
    CHECK(frontier->back().price.host.values > 0);
    int of_states_alone = 0;
    for (size_t k = 0; k < frontier->size(); ++k) {
      const Bytes arena = (*frontier)[k].arena;
      const Price& price = (*frontier)[k].price;
      INFO("arena ", arena);
      CHECK(price.micro_batches == 1);
      CHECK(
          price.extra_cost ==
          doctest::Approx(price.extra_flops +
                          kOffloadFlopsPerByte *
                              static_cast<double>(price.host.bytes_per_step)));
      CHECK(price.least_extra_cost <= price.extra_flops * (1 + 1e-9));
      if (recompute == Recompute::kNone) CHECK(price.recomputed_nodes == 0);
      of_states_alone += price.host.values > 0 && price.recomputed_nodes == 0;
      if (k > 0) {
        CHECK(arena < (*frontier)[k - 1].arena);
        CHECK(price.extra_cost > (*frontier)[k - 1].price.extra_cost);
      }
      if (k % 8 != 0) continue;
      const auto fitted = fitter.Fit(arena);
      REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
      CHECK(fitted->total_cost() <=
            (GraphFlops(step) + price.extra_cost) * (1 + 1e-9));
    }
    if (recompute == Recompute::kNone) CHECK(of_states_alone > 10);
  }
  // Nothing is listed that is not allowed.
  StepFitter fitter = FitterOf(step, {.offload = OffloadChoice::kNone});
  const auto unmoved = fitter.Frontier();
  REQUIRE(unmoved.ok());
  for (const ParetoPoint& each : *unmoved) CHECK(each.price.host.values == 0);
  CHECK(unmoved->back().arena == *fitter.SmallestBudget());
}

TEST_CASE("no more states are moved than have to be") {
  const Graph step = StepOf("mlp", {.batch = 512});
  std::vector<Offloadable> states = FindOffloadable(step);
  std::erase_if(states, [](const Offloadable& o) { return !o.persists(); });
  StepFitter fitter = FitterOf(step, {.recompute = Recompute::kNone});
  for (const size_t count : {size_t{1}, size_t{2}, size_t{3}, size_t{4}}) {
    CAPTURE(count);
    const Graph moved = *Offload(step, std::span(states).first(count));
    const Bytes budget = ArenaOf(moved);
    const auto fitted = fitter.Fit(budget);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    CHECK(FindHostUse(fitted->graph).values == static_cast<int>(count));
    CHECK(fitted->plan.arena_bytes() <= budget);
  }
}

TEST_CASE("where nothing may be moved, nothing is") {
  const Graph step = StepOf("gpt-nano", {.batch = 2, .seq = 32});
  StepFitter fitter = FitterOf(step, {.offload = OffloadChoice::kNone});
  const Bytes least = *fitter.SmallestBudget();
  const auto fitted = fitter.Fit(least);
  REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
  CHECK(FindHostUse(fitted->graph).values == 0);
  const auto refused = fitter.Fit(least - 1);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("offload") == std::string::npos);
  CHECK(*fitter.SmallestBudget(MemoryOptimizations()) < least);
}

TEST_CASE("what a little recomputation can do is left to it") {
  const Graph step = StepOf("gpt-nano", {.batch = 8, .seq = 64});
  StepFitter recompute = FitterOf(step, {.offload = OffloadChoice::kNone});
  // A little less than it needs: norms and elementwise ops do.
  const Bytes budget = ArenaOf(step) * 9 / 10;
  const auto without = recompute.Fit(budget);
  REQUIRE(without.ok());
  REQUIRE(without->price.extra_percent < 1);
  StepFitter fitter = FitterOf(step);
  const auto fitted = fitter.Fit(budget);
  REQUIRE(fitted.ok());
  CHECK(FindHostUse(fitted->graph).values == 0);
  CHECK(fitted->price.extra_cost == without->price.extra_cost);
  // Below what recomputation reaches, something is moved.
  const Bytes least = *recompute.SmallestBudget();
  const auto below = fitter.Fit(least - 1);
  REQUIRE_MESSAGE(below.ok(), below.error().message);
  CHECK(FindHostUse(below->graph).values > 0);
}

TEST_CASE("a batch in micro-batches is moved alike in all of them") {
  StepFitter fitter(StepsOf(Mlp, 64),
                    {.optimizations = {.micro_batches = {8}}});
  const Bytes least = *fitter.SmallestBudget();
  const auto fitted = fitter.Fit(least);
  REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
  CHECK(fitted->plan.arena_bytes() <= least);
  CHECK(ValidatePlan(fitted->graph, fitted->plan).empty());
  CHECK(fitted->price.micro_batches == 8);
  CHECK(FindHostUse(fitted->graph).values > 0);
}

TEST_CASE("a layout of params alone leaves states to the optimizations") {
  const Graph step = StepOf("mlp", {.batch = 8});
  const WeightLayout layout =
      WeightLayout::FromForward(step, *PlanMemory(step)).WithoutStates();
  StepFitter fitter(OfGraph(step), {.plan = {.weights = layout}});
  const auto fitted = fitter.Fit(*fitter.SmallestBudget());
  REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
  CHECK(fitted->plan.regions.host_state > 0);
  const WeightLayout made =
      WeightLayout::FromForward(fitted->graph, fitted->plan);
  REQUIRE(made.weights().size() == layout.weights().size());
  for (const auto& [name, slot] : layout.weights()) {
    CHECK(made.weights().at(name).offset == slot.offset);
  }
}

TEST_CASE(
    "states that a layout has are moved by no optimization, values still are") {
  const int64_t batch = 4;
  const Graph step = TinyGptStep(batch);
  std::vector<Offloadable> states = FindOffloadable(step);
  std::erase_if(states, [](const Offloadable& o) { return !o.persists(); });
  const Bytes all_states = PlanMemory(step)->regions.state;
  struct Case {
    size_t count;  // of states on the host
    NodeOrder order = NodeOrder::kGiven;
  };
  for (const Case& each :
       {Case{0}, Case{2}, Case{states.size()}, Case{2, NodeOrder::kMemory}}) {
    const size_t count = each.count;
    const NodeOrder order = each.order;
    CAPTURE(count);
    const Graph moved = *Offload(step, std::span(states).first(count));
    const WeightLayout layout =
        WeightLayout::FromForward(moved, *PlanMemory(moved));
    MemoryOptimizations optimizations = {.recompute = Recompute::kNone,
                                         .order = order};
    if (order == NodeOrder::kGiven) optimizations.micro_batches = {1, 2};
    StepFitter fitter(StepsOf(TinyGpt, batch), {.plan = {.weights = layout},
                                                .optimizations = optimizations,
                                                .effort = kEffort});
    const Bytes least = *fitter.SmallestBudget();
    Bytes offloaded = 0;
    for (const std::optional<Bytes> budget :
         {std::optional<Bytes>(), std::optional(least)}) {
      const auto fitted = fitter.Fit(budget);
      REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
      const RegionBytes& regions = fitted->plan.regions;
      CHECK(regions.host_state == layout.host_state_bytes());
      CHECK(regions.state == all_states - layout.host_state_bytes());
      for (const ValueId id : fitted->graph.Leaves(Role::kState)) {
        const ValueInfo& state = fitted->graph.value(id);
        CHECK(state.on_host == layout.on_host().contains(state.name));
      }
      offloaded += regions.host_offload;
    }
    CHECK(offloaded > 0);
    CHECK_FALSE(fitter.Fit(least - 1).ok());
  }
}

TEST_CASE("passes are told in the order in which they ran") {
  const Graph step = StepOf("gpt-nano", {.batch = 2, .seq = 32});
  StepFitter fitter = FitterOf(step, {.order = NodeOrder::kMemory});
  const Bytes smallest = *fitter.SmallestBudget();
  const auto fitted = fitter.Fit(smallest);
  REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
  std::string names;
  for (const PassReport& pass : fitted->passes) names += pass.name + " ";
  CHECK(names ==
        "given choose micro_batches offload recompute order fuse prefetch "
        "validate ");
  CHECK(fitted->passes.front().arena == ArenaOf(step));
  CHECK(fitted->passes.back().arena == fitted->plan.arena_bytes());
  CHECK(fitted->plan.arena_bytes() <= smallest);
  CHECK(fitted->order_bound.has_value());
}

}  // namespace
}  // namespace stowage::fit
