#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu/cpu_backend.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/run_steps.h"

namespace stowage::fit {
namespace {

using testing::Differences;
using testing::RunSteps;
using testing::StepOf;

Graph Parse(std::string_view text) {
  auto graph = ParseGraph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

WeightLayout LayoutOf(const Graph& graph) {
  return WeightLayout::FromForward(graph, *PlanMemory(graph));
}

// Of a program that has "a" and "c" on the host, and "b" in the arena.
WeightLayout ManyUpdatesLayout() {
  return LayoutOf(Parse(R"(stowage-ir 1
graph "first" {
  a: f32(2, 3) = host_state
  b: f32(2, 3) = state
  c: f32(2, 3) = host_state
  a1: f32(2, 3) = reload(a)
  c1: f32(2, 3) = reload(c)
  ab: f32(2, 3) = mul(a1, b)
  abc: f32(2, 3) = mul(ab, c1)
  output "abc" = abc
}
)"));
}

// "a" is read, updated, read and updated again; "c" is read alone, and seen through a
// view.
constexpr std::string_view kManyUpdates = R"(stowage-ir 1
graph "g" {
  a: f32(2, 3) = state
  b: f32(2, 3) = state
  c: f32(2, 3) = state
  x: f32(2, 3) = input
  p: f32(2, 3) = mul(x, x)
  q: f32(2, 3) = mul(p, a)
  a2: f32(2, 3) = assign(a, q)
  r: f32(2, 3) = mul(a2, x)
  b2: f32(2, 3) = assign(b, r)
  a3: f32(2, 3) = assign(a2, r)
  t: f32(3, 2) = permute(c) {order=[1, 0]}
  s: f32(3, 2) = mul(t, t)
  output "s" = s
}
)";

TEST_CASE("a given state is there from its first user to its last update") {
  const auto moved = MoveGiven(Parse(kManyUpdates), ManyUpdatesLayout());
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  CHECK(ToText(*moved) == R"(stowage-ir 1
graph "g" {
  a: f32(2, 3) = host_state
  b: f32(2, 3) = state
  c: f32(2, 3) = host_state
  x: f32(2, 3) = input
  p: f32(2, 3) = mul(x, x)
  "a~reloaded": f32(2, 3) = reload(a)
  q: f32(2, 3) = mul(p, "a~reloaded")
  a2: f32(2, 3) = assign("a~reloaded", q)
  r: f32(2, 3) = mul(a2, x)
  b2: f32(2, 3) = assign(b, r)
  a3: f32(2, 3) = assign(a2, r)
  "a~offloaded": f32(2, 3) = offload_update(a, a3)
  "c~reloaded": f32(2, 3) = reload(c)
  t: f32(3, 2) = permute("c~reloaded") {order=[1, 0]}
  s: f32(3, 2) = mul(t, t)
  output "s" = s
}
)");
}

TEST_CASE("with given states on the host a step is the same to the bit") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const Graph step = Parse(kManyUpdates);
  const Graph moved = *MoveGiven(step, ManyUpdatesLayout());
  const auto expected = RunSteps(step, *cpu, {.steps = 3, .planned = false});
  CHECK(Differences(RunSteps(moved, *cpu, {.steps = 3, .poison = true}),
                    expected) == "");
}

TEST_CASE("given states move as they do where they are chosen, and no others") {
  const Graph step = StepOf("mlp", {.batch = 8});
  std::vector<Offloadable> states = FindOffloadable(step);
  std::erase_if(states, [](const Offloadable& o) { return !o.persists(); });
  states.resize(states.size() / 2);
  const Graph chosen = *Offload(step, states);
  const WeightLayout layout = LayoutOf(chosen);
  std::vector<NodeId> places = {0, step.num_nodes() - 1};
  const Graph given = *MoveGiven(step, layout, places);
  CHECK(Equal(given, chosen));
  CHECK(places[0] == 0);
  CHECK(given.node(places[1]).op == OpKind::kReload);
  // Of another batch, over the same places.
  const Graph other = *MoveGiven(StepOf("mlp", {.batch = 3}), layout);
  const auto plan = PlanMemory(other, {.weights = layout});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  CHECK(ValidatePlan(other, *plan).empty());
  CHECK(plan->regions.host_state == layout.host_state_bytes());
}

TEST_CASE("where the layout has none on the host, a graph stays as it is") {
  const Graph step = StepOf("mlp", {.batch = 8});
  CHECK(Equal(*MoveGiven(step, LayoutOf(step)), step));
}

}  // namespace
}  // namespace stowage::fit
