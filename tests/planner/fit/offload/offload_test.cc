#include "planner/fit/offload/offload.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/text.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/fit/pieces/pieces.h"
#include "planner/fit/offload/offload_plan.h"
#include "planner/plan_memory.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/validate_plan.h"
#include "planner/weight_layout.h"
#include "tests/support/instances.h"

namespace stowage::fit {
namespace {

using testing::Instances;

Graph Parse(std::string_view text) {
  auto graph = ParseGraph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

Graph StepOf(std::string_view model, const ModelOptions& options) {
  const auto forward = BuildModel(model, ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  auto step = BuildTrainStep(*forward, "loss");
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return std::move(*step);
}

// A forward value that waits, seen through a view too, one that does not, a
// state that only its update reads, one that is also read before it, and an
// output.
constexpr std::string_view kStep = R"(stowage-ir 1
graph "g" {
  w: f32(2, 3) = param
  w.m: f32(2, 3) = state
  u: f32(2, 3) = param
  u.m: f32(2, 3) = state
  x: f32(2, 3) = input
  lr: f32() = input
  a: f32(2, 3) = mul(x, w)
  t: f32(3, 2) = permute(a) {order=[1, 0]}
  b: f32(2, 3) = tanh(a)
  c: f32(2, 3) = mul(b, u.m)
  loss: f32() = reduce_sum(c) {axes=[0, 1], keep=0}
  dt: f32(3, 2) gradient = mul(t, t) @backward("t")
  dw: f32(2, 3) gradient = permute(dt) {order=[1, 0]} @backward("w")
  du: f32(2, 3) gradient = mul(b, a) @backward("u")
  dw2: f32(2, 3) gradient = mul(dw, du) @backward("w")
  w2: f32(2, 3), w.m2: f32(2, 3) = momentum_update(w, w.m, dw2, lr) {decay=0.0, momentum=0.5} @update("w")
  u2: f32(2, 3), u.m2: f32(2, 3) = momentum_update(u, u.m, du, lr) {decay=0.0, momentum=0.5} @update("u")
  output "loss" = loss
}
)";

TEST_CASE("what waits may be moved, and what only its update reads") {
  const Graph step = Parse(kStep);
  std::string found;
  for (const Offloadable& o : FindOffloadable(step)) {
    found += StrCat(step.value(o.value).name, " ", o.bytes, " ", o.from, "-",
                    o.to, o.is_state() ? " state" : "", "; ");
  }
  // Not "u.m", which forward reads; "a" waits from "b", node 2, to "dt", 5.
  CHECK(found == "w.m 24 -1-9 state; b 24 3-7; a 24 2-5; ");
}

TEST_CASE("moved values are stashed, fetched and seen through views again") {
  const Graph step = Parse(kStep);
  const std::vector<Offloadable> all = FindOffloadable(step);
  const auto moved = Offload(step, std::vector{all[0], all[2]});
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  CHECK(ToText(*moved) == R"(stowage-ir 1
graph "g" {
  w: f32(2, 3) = param
  w.m: f32(2, 3) = host_state
  u: f32(2, 3) = param
  u.m: f32(2, 3) = state
  x: f32(2, 3) = input
  lr: f32() = input
  a: f32(2, 3) = mul(x, w)
  b: f32(2, 3) = tanh(a)
  "a~stashed": f32(2, 3) = stash(a)
  c: f32(2, 3) = mul(b, u.m)
  loss: f32() = reduce_sum(c) {axes=[0, 1], keep=0}
  "a~fetched": f32(2, 3) = fetch("a~stashed") @backward("t")
  t: f32(3, 2) = permute("a~fetched") {order=[1, 0]}
  dt: f32(3, 2) gradient = mul(t, t) @backward("t")
  du: f32(2, 3) gradient = mul(b, "a~fetched") @backward("u")
  dw: f32(2, 3) gradient = permute(dt) {order=[1, 0]} @backward("w")
  dw2: f32(2, 3) gradient = mul(dw, du) @backward("w")
  "w.m~fetched": f32(2, 3) = fetch(w.m) @update("w")
  w2: f32(2, 3), w.m2: f32(2, 3) = momentum_update(w, "w.m~fetched", dw2, lr) {decay=0.0, momentum=0.5} @update("w")
  "w.m~stashed": f32(2, 3) = stash_update(w.m, w.m2) @update("w")
  u2: f32(2, 3), u.m2: f32(2, 3) = momentum_update(u, u.m, du, lr) {decay=0.0, momentum=0.5} @update("u")
  output "loss" = loss
}
)");
  const Graph again = Parse(ToText(*moved));
  CHECK(Equal(*moved, again));
}

TEST_CASE("a view that forward has taken is taken of what is fetched, too") {
  const Graph step = Parse(R"(stowage-ir 1
graph "g" {
  x: f32(2, 3) = input
  a: f32(2, 3) = tanh(x)
  t: f32(3, 2) = permute(a) {order=[1, 0]}
  p: f32(3, 2) = tanh(t)
  q: f32(3, 2) = tanh(p)
  loss: f32() = reduce_sum(q) {axes=[0, 1], keep=0}
  dq: f32(3, 2) gradient = mul(q, q) @backward("q")
  dt: f32(3, 2) gradient = mul(t, dq) @backward("t")
  output "loss" = loss
}
)");
  const std::vector<Offloadable> all = FindOffloadable(step);
  // "q" is read by the last node of forward and the first of backward: it would
  // come back as it goes.
  REQUIRE(all.size() == 1);
  CHECK(step.value(all[0].value).name == "a");
  const auto moved = Offload(step, all);
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  CHECK(ToText(*moved) == R"(stowage-ir 1
graph "g" {
  x: f32(2, 3) = input
  a: f32(2, 3) = tanh(x)
  t: f32(3, 2) = permute(a) {order=[1, 0]}
  p: f32(3, 2) = tanh(t)
  "a~stashed": f32(2, 3) = stash(a)
  q: f32(3, 2) = tanh(p)
  loss: f32() = reduce_sum(q) {axes=[0, 1], keep=0}
  dq: f32(3, 2) gradient = mul(q, q) @backward("q")
  "a~fetched": f32(2, 3) = fetch("a~stashed") @backward("t")
  "t~fetched": f32(3, 2) = permute("a~fetched") {order=[1, 0]}
  dt: f32(3, 2) gradient = mul("t~fetched", dq) @backward("t")
  output "loss" = loss
}
)");
}

TEST_CASE(
    "all states of a step move, and the arena is smaller by their bytes") {
  // At this batch the peak is in backward, where no update holds its states.
  const Graph step = StepOf("mlp", {.batch = 512});
  std::vector<Offloadable> states = FindOffloadable(step);
  std::erase_if(states, [](const Offloadable& o) { return !o.is_state(); });
  CHECK(states.size() == step.Leaves(Role::kState).size());
  CHECK(std::ranges::is_sorted(states, std::ranges::greater(),
                               &Offloadable::bytes));
  const Graph moved = *Offload(step, states);
  const Plan before = *PlanMemory(step);
  const Plan after = *PlanMemory(moved);
  CHECK(ValidatePlan(moved, after).empty());
  CHECK(after.regions.state == 0);
  CHECK(after.regions.host_state == before.regions.state);
  CHECK(after.regions.host_stash == 0);
  CHECK(after.host_bytes() == before.regions.state);
  CHECK(after.arena_bytes() == before.arena_bytes() - before.regions.state);
  // What is on the host counts in no figure of the arena.
  CHECK(after.lower_bound <= after.arena_bytes());
  CHECK(after.no_reuse - after.regions.weights - after.regions.io >= 0);
  for (const int32_t index : LiveAt(after, after.peak_time)) {
    CHECK(!IsOnHost(after.buffers[static_cast<size_t>(index)].region));
  }
}

TEST_CASE("what is stashed is packed by lifetime in the host's memory") {
  const Graph step = StepOf("gpt-nano", {.batch = 4, .seq = 32});
  std::vector<Offloadable> values = FindOffloadable(step);
  std::erase_if(values, [](const Offloadable& o) { return o.is_state(); });
  REQUIRE(values.size() > 10);
  const Graph moved = *Offload(step, values);
  const Plan before = *PlanMemory(step);
  const Plan after = *PlanMemory(moved);
  CHECK(ValidatePlan(moved, after).empty());
  CHECK(after.regions.state == before.regions.state);
  CHECK(after.regions.host_state == 0);
  Bytes sum = 0;
  for (const Offloadable& o : values) sum += AlignUp(o.bytes, after.alignment);
  CHECK(after.regions.host_stash <= sum);
  CHECK(after.regions.host_stash > sum / 2);
  CHECK(after.arena_bytes() < before.arena_bytes());
}

TEST_CASE("programs over one layout agree on states in the host's memory") {
  const Graph step = StepOf("mlp", {.batch = 8});
  const Graph moved = *Offload(step, FindOffloadable(step));
  const Plan plan = *PlanMemory(moved);
  const WeightLayout layout = WeightLayout::FromForward(moved, plan);
  CHECK(layout.states().empty());
  CHECK(layout.host_states().size() == step.Leaves(Role::kState).size());
  CHECK(layout.host_state_bytes() == plan.regions.host_state);
  const Graph larger = StepOf("mlp", {.batch = 16});
  const Graph other = *Offload(larger, FindOffloadable(larger));
  const Plan given = *PlanMemory(other, {.weights = layout});
  CHECK(ValidatePlan(other, given).empty());
  const auto slot = [](const Graph& graph, const Plan& of, ValueId id) {
    return of.buffers[static_cast<size_t>(
        of.buffer_of[static_cast<size_t>(*graph.Find(graph.value(id).name))])];
  };
  for (const ValueId id : moved.Leaves(Role::kState)) {
    const ValueId there = *other.Find(moved.value(id).name);
    CHECK(slot(moved, plan, id).offset == slot(other, given, there).offset);
  }
  // A program without states reserves their bytes.
  const auto forward = BuildModel("mlp", ModelPurpose::kEvaluate, {.batch = 8});
  const Plan evaluate = *PlanMemory(*forward, {.weights = layout});
  CHECK(evaluate.regions.host_state == plan.regions.host_state);
  // A state that the layout has in the arena cannot be on the host.
  const WeightLayout in_arena =
      WeightLayout::FromForward(step, *PlanMemory(step));
  const auto refused = PlanMemory(moved, {.weights = in_arena});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("the weight layout has no state") !=
        std::string::npos);
  CHECK(PlanMemory(moved, {.weights = in_arena}).error().code ==
        ErrorCode::kInvalidArgument);
  const WeightLayout params = in_arena.WithoutStates();
  CHECK(PlanMemory(moved, {.weights = params}).ok());
}

// Steps of mlp on 64 examples, of equal pieces.
Result<PiecedStep> BuildPieces(int64_t pieces, Sampling sampling) {
  const auto build = [](int64_t batch) {
    return BuildModel("mlp", ModelPurpose::kTrain, {.batch = batch});
  };
  STOWAGE_ASSIGN_OR_RETURN(const Graph whole, build(64));
  STOWAGE_ASSIGN_OR_RETURN(const Graph piece, build(64 / pieces));
  const std::vector<const Graph*> all(static_cast<size_t>(pieces), &piece);
  STOWAGE_ASSIGN_OR_RETURN(
      MicroBatchedStep step,
      BuildMicroBatchedStep(
          whole, all, "loss", {},
          sampling == Sampling::kAll ? Pieces::kAll : Pieces::kOneOfAKind));
  return PiecedStep{std::move(step.graph), std::move(step.begins),
                    std::move(step.counts)};
}

OffloadPlanner PlannerOf(const Graph& step, Recompute recompute) {
  return OffloadPlanner({1}, OfGraph(step), {},
                        {.recompute = {.recompute = recompute}});
}

double CostOf(const MicroBatchedPlan& plan) {
  return plan.cost + plan.made.extra_cost;
}

TEST_CASE("nothing is moved where the step fits") {
  const Graph step = StepOf("mlp", {.batch = 8});
  const Bytes arena = PlanMemory(step)->arena_bytes();
  for (const std::optional<Bytes> budget :
       {std::optional<Bytes>(), std::optional<Bytes>(arena)}) {
    auto planner = PlannerOf(step, Recompute::kAuto);
    const auto fitted = planner.PlanFor(budget);
    REQUIRE(fitted.ok());
    CHECK(Equal(fitted->made.graph, step));
    CHECK(FindHostUse(fitted->made.graph).values == 0);
  }
}

TEST_CASE("a larger budget never costs more, and one byte too few is refused") {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kAuto}) {
    const Graph step = StepOf("gpt-nano", {.batch = 2, .seq = 32});
    const Bytes arena = PlanMemory(step)->arena_bytes();
    auto planner = PlannerOf(step, recompute);
    const auto smallest =
        planner.SmallestBudget(OffloadChoice::kAuto, recompute);
    REQUIRE(smallest.ok());
    double last = std::numeric_limits<double>::infinity();
    bool moves = false;
    const int steps = Instances(24);
    for (int k = 0; k <= steps; ++k) {
      const Bytes budget = *smallest + (arena - *smallest) * k / steps;
      INFO("budget ", budget);
      const auto fitted = planner.PlanFor(budget);
      REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
      const RecomputedPlan& made = fitted->made;
      CHECK(made.plan.arena_bytes() <= budget);
      CHECK(ValidatePlan(made.graph, made.plan).empty());
      CHECK(CostOf(*fitted) <= last);
      last = CostOf(*fitted);
      const HostUse use = FindHostUse(made.graph);
      CHECK(CostOf(*fitted) ==
            doctest::Approx(GraphFlops(made.graph) +
                            kOffloadFlopsPerByte *
                                static_cast<double>(use.bytes_per_step)));
      moves |= use.values > 0;
      if (recompute == Recompute::kNone) CHECK(made.recomputed_nodes == 0);
    }
    CHECK(last == doctest::Approx(GraphFlops(step)));
    CHECK(moves);
    const auto refused = planner.PlanFor(*smallest - 1);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
    CHECK(refused.error().message.ends_with(
        StrCat(", or ", FormatBytes(*smallest), " (", *smallest,
               " bytes) with offload")));
    CHECK(*planner.SmallestBudget(OffloadChoice::kNone, Recompute::kNone) ==
          arena);
  }
}

TEST_CASE("the frontier lists what budgets cost, copies included") {
  const Graph step = StepOf("gpt-nano", {.batch = 2, .seq = 32});
  for (const Recompute recompute : {Recompute::kNone, Recompute::kAuto}) {
    auto planner = PlannerOf(step, recompute);
    const auto frontier = planner.Frontier();
    REQUIRE_MESSAGE(frontier.ok(), frontier.error().message);
    REQUIRE(frontier->size() > 10);
    CHECK(frontier->front().point.arena == PlanMemory(step)->arena_bytes());
    CHECK(frontier->front().point.extra_cost == 0);
    CHECK(frontier->front().host.values == 0);
    CHECK(frontier->back().point.arena ==
          *planner.SmallestBudget(OffloadChoice::kAuto, recompute));
    CHECK(frontier->back().host.values > 0);
    int of_states_alone = 0;
    for (size_t k = 0; k < frontier->size(); ++k) {
      const FrontierPoint& point = (*frontier)[k].point;
      const HostUse& host = (*frontier)[k].host;
      INFO("arena ", point.arena);
      CHECK((*frontier)[k].pieces == 1);
      CHECK(point.extra_cost ==
            doctest::Approx(point.extra_flops +
                            kOffloadFlopsPerByte *
                                static_cast<double>(host.bytes_per_step)));
      CHECK(point.least_extra_cost <= point.extra_flops * (1 + 1e-9));
      if (recompute == Recompute::kNone) CHECK(point.recomputed_nodes == 0);
      of_states_alone += host.values > 0 && point.recomputed_nodes == 0;
      if (k > 0) {
        CHECK(point.arena < (*frontier)[k - 1].point.arena);
        CHECK(point.extra_cost > (*frontier)[k - 1].point.extra_cost);
      }
      if (k % 8 != 0) continue;
      const auto fitted = planner.PlanFor(point.arena);
      REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
      CHECK(CostOf(*fitted) <=
            (GraphFlops(step) + point.extra_cost) * (1 + 1e-9));
    }
    if (recompute == Recompute::kNone) CHECK(of_states_alone > 10);
  }
  // Nothing is listed that is not allowed.
  OffloadPlanner planner({1}, OfGraph(step), {},
                         {.offload = OffloadChoice::kNone});
  const auto unmoved = planner.Frontier();
  REQUIRE(unmoved.ok());
  for (const OffloadedPoint& each : *unmoved) CHECK(each.host.values == 0);
  CHECK(unmoved->back().point.arena ==
        *planner.SmallestBudget(OffloadChoice::kNone, Recompute::kAuto));
}

TEST_CASE("no more states are moved than have to be") {
  const Graph step = StepOf("mlp", {.batch = 512});
  std::vector<Offloadable> states = FindOffloadable(step);
  std::erase_if(states, [](const Offloadable& o) { return !o.is_state(); });
  auto planner = PlannerOf(step, Recompute::kNone);
  for (const size_t count : {size_t{1}, size_t{2}, size_t{3}, size_t{4}}) {
    CAPTURE(count);
    const Graph moved = *Offload(step, std::span(states).first(count));
    const Bytes budget = PlanMemory(moved)->arena_bytes();
    const auto fitted = planner.PlanFor(budget);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    CHECK(FindHostUse(fitted->made.graph).values == static_cast<int>(count));
    CHECK(fitted->made.plan.arena_bytes() <= budget);
  }
}

TEST_CASE("where nothing may be moved, nothing is") {
  const Graph step = StepOf("gpt-nano", {.batch = 2, .seq = 32});
  OffloadPlanner planner({1}, OfGraph(step), {},
                         {.offload = OffloadChoice::kNone,
                          .recompute = {.recompute = Recompute::kAuto}});
  const Bytes least =
      *planner.SmallestBudget(OffloadChoice::kNone, Recompute::kAuto);
  const auto fitted = planner.PlanFor(least);
  REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
  CHECK(FindHostUse(fitted->made.graph).values == 0);
  const auto refused = planner.PlanFor(least - 1);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("offload") == std::string::npos);
  CHECK(*planner.SmallestBudget(OffloadChoice::kAuto, Recompute::kAuto) <
        least);
}

TEST_CASE("what a little recomputation can do is left to it") {
  const Graph step = StepOf("gpt-nano", {.batch = 8, .seq = 64});
  RecomputePlanner recompute(step, {});
  // A little less than it needs: norms and elementwise ops do.
  const Bytes budget = PlanMemory(step)->arena_bytes() * 9 / 10;
  const auto without = recompute.PlanFor(budget);
  REQUIRE(without.ok());
  REQUIRE(without->extra_percent < 1);
  auto planner = PlannerOf(step, Recompute::kAuto);
  const auto fitted = planner.PlanFor(budget);
  REQUIRE(fitted.ok());
  CHECK(FindHostUse(fitted->made.graph).values == 0);
  CHECK(fitted->made.extra_cost == without->extra_cost);
  // Below what recomputation reaches, something is moved.
  const Bytes least = *recompute.SmallestBudget(Recompute::kAuto);
  const auto below = planner.PlanFor(least - 1);
  REQUIRE_MESSAGE(below.ok(), below.error().message);
  CHECK(FindHostUse(below->made.graph).values > 0);
}

TEST_CASE("a batch in pieces is moved alike in all of them") {
  OffloadPlanner planner({8}, BuildPieces, {});
  const Bytes least =
      *planner.SmallestBudget(OffloadChoice::kAuto, Recompute::kAuto);
  const auto fitted = planner.PlanFor(least);
  REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
  CHECK(fitted->made.plan.arena_bytes() <= least);
  CHECK(ValidatePlan(fitted->made.graph, fitted->made.plan).empty());
  CHECK(fitted->pieces == 8);
  CHECK(FindHostUse(fitted->made.graph).values > 0);
}

}  // namespace
}  // namespace stowage::fit
