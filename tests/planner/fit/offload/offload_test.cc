#include "planner/fit/offload/offload.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "nn/model_options.h"
#include "nn/models.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/planner/fit/steps.h"

namespace stowage::fit {
namespace {

using testing::StepOf;

Graph Parse(std::string_view text) {
  auto graph = ParseGraph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
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
                    o.to, o.persists() ? " state" : "");
    for (const NodeId reader : o.again) found += StrCat(" and ", reader);
    found += "; ";
  }
  // Not "u.m", which forward reads; "a" waits from "b", node 2, to "dt", 5. Between
  // "dt" and "du", 7, there is but a view.
  CHECK(found == "w.m 24 -1-9 state; b 24 3-7; a 24 2-5; ");
}

TEST_CASE("what was reloaded, or is written anew, is not moved once more") {
  // All wait from forward to backward: states from the host, of which one is only read, and
  // a block that a rank keeps and updates.
  const Graph step = Parse(R"(stowage-ir 1
graph "g" {
  s: f32(6) = host_state
  r: f32(6) = host_state
  p: f32(12) = param
  x: f32(6) = input
  "s~reloaded": f32(6) = reload(s)
  "r~reloaded": f32(6) = reload(r)
  own: f32(6) = own_block(p) {ranks=2, granule=1}
  waits: f32(6) = mul(x, own)
  a: f32(6) = mul(waits, "s~reloaded")
  b: f32(6) = mul(a, "r~reloaded")
  c: f32(6) = tanh(b)
  loss: f32() = reduce_sum(c) {axes=[0], keep=0}
  da: f32(6) gradient = mul(x, x) @backward("a")
  db: f32(6) gradient = mul(da, waits) @backward("b")
  dc: f32(6) gradient = mul(db, "r~reloaded") @backward("b")
  s2: f32(6) = assign("s~reloaded", dc) @update("s")
  own2: f32(6) = assign(own, s2) @update("s")
  s3: f32(6) = offload_update(s, own2) @update("s")
  output "loss" = loss
}
)");
  std::string found;
  for (const Offloadable& o : FindOffloadable(step)) {
    found += StrCat(step.value(o.value).name, " ");
  }
  CHECK(found == "waits ");
}

TEST_CASE("moved values are offloaded, reloaded and seen through views again") {
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
  "a~offloaded": f32(2, 3) = offload(a)
  c: f32(2, 3) = mul(b, u.m)
  loss: f32() = reduce_sum(c) {axes=[0, 1], keep=0}
  "a~reloaded": f32(2, 3) = reload("a~offloaded") @backward("t")
  t: f32(3, 2) = permute("a~reloaded") {order=[1, 0]}
  dt: f32(3, 2) gradient = mul(t, t) @backward("t")
  du: f32(2, 3) gradient = mul(b, "a~reloaded") @backward("u")
  dw: f32(2, 3) gradient = permute(dt) {order=[1, 0]} @backward("w")
  dw2: f32(2, 3) gradient = mul(dw, du) @backward("w")
  "w.m~reloaded": f32(2, 3) = reload(w.m) @update("w")
  w2: f32(2, 3), w.m2: f32(2, 3) = momentum_update(w, "w.m~reloaded", dw2, lr) {decay=0.0, momentum=0.5} @update("w")
  "w.m~offloaded": f32(2, 3) = offload_update(w.m, w.m2) @update("w")
  u2: f32(2, 3), u.m2: f32(2, 3) = momentum_update(u, u.m, du, lr) {decay=0.0, momentum=0.5} @update("u")
  output "loss" = loss
}
)");
  const Graph again = Parse(ToText(*moved));
  CHECK(Equal(*moved, again));
}

TEST_CASE("what waits in backward, too, is reloaded for each that is far off") {
  const Graph step = Parse(R"(stowage-ir 1
graph "g" {
  x: f32(2, 3) = input
  a: f32(2, 3) = tanh(x)
  p: f32(2, 3) = tanh(a)
  q: f32(2, 3) = tanh(p)
  loss: f32() = reduce_sum(q) {axes=[0, 1], keep=0}
  b: f32(2, 3) gradient = mul(a, x) @backward("q")
  c: f32(2, 3) gradient = mul(a, b) @backward("q")
  s: f32(3) gradient = reduce_sum(c) {axes=[0], keep=0} @backward("q")
  d: f32(2, 3) gradient = mul(a, c) @backward("q")
  e: f32(2, 3) gradient = mul(d, d) @backward("q")
  f: f32(2, 3) gradient = mul(a, e) @backward("q")
  output "loss" = loss
}
)");
  // For "d" it may lie where it is: the sum between is smaller.
  std::vector<Offloadable> all = FindOffloadable(step);
  REQUIRE(!all.empty());
  CHECK(step.value(all[0].value).name == "a");
  CHECK(all[0].again == std::vector<NodeId>{9});
  all.resize(1);
  const auto moved = Offload(step, all);
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  CHECK(ToText(*moved) == R"(stowage-ir 1
graph "g" {
  x: f32(2, 3) = input
  a: f32(2, 3) = tanh(x)
  p: f32(2, 3) = tanh(a)
  "a~offloaded": f32(2, 3) = offload(a)
  q: f32(2, 3) = tanh(p)
  loss: f32() = reduce_sum(q) {axes=[0, 1], keep=0}
  "a~reloaded": f32(2, 3) = reload("a~offloaded") @backward("q")
  b: f32(2, 3) gradient = mul("a~reloaded", x) @backward("q")
  c: f32(2, 3) gradient = mul("a~reloaded", b) @backward("q")
  s: f32(3) gradient = reduce_sum(c) {axes=[0], keep=0} @backward("q")
  d: f32(2, 3) gradient = mul("a~reloaded", c) @backward("q")
  e: f32(2, 3) gradient = mul(d, d) @backward("q")
  "a~reloaded2": f32(2, 3) = reload("a~offloaded") @backward("q")
  f: f32(2, 3) gradient = mul("a~reloaded2", e) @backward("q")
  output "loss" = loss
}
)");
}

TEST_CASE("a view that forward has taken is taken of what is reloaded, too") {
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
  "a~offloaded": f32(2, 3) = offload(a)
  q: f32(3, 2) = tanh(p)
  loss: f32() = reduce_sum(q) {axes=[0, 1], keep=0}
  dq: f32(3, 2) gradient = mul(q, q) @backward("q")
  "a~reloaded": f32(2, 3) = reload("a~offloaded") @backward("t")
  "t~reloaded": f32(3, 2) = permute("a~reloaded") {order=[1, 0]}
  dt: f32(3, 2) gradient = mul("t~reloaded", dq) @backward("t")
  output "loss" = loss
}
)");
}

TEST_CASE(
    "all states of a step move, and the arena is smaller by their bytes") {
  // At this batch the peak is in backward, where no update holds its states.
  const Graph step = StepOf("mlp", {.batch = 512});
  std::vector<Offloadable> states = FindOffloadable(step);
  std::erase_if(states, [](const Offloadable& o) { return !o.persists(); });
  CHECK(states.size() == step.Leaves(Role::kState).size());
  CHECK(std::ranges::is_sorted(states, std::ranges::greater(),
                               &Offloadable::bytes));
  const Graph moved = *Offload(step, states);
  const Plan before = *PlanMemory(step);
  const Plan after = *PlanMemory(moved);
  CHECK(ValidatePlan(moved, after).empty());
  CHECK(after.regions.state == 0);
  CHECK(after.regions.host_state == before.regions.state);
  CHECK(after.regions.host_offload == 0);
  CHECK(after.host_bytes() == before.regions.state);
  CHECK(after.arena_bytes() == before.arena_bytes() - before.regions.state);
  // What is on the host counts in no figure of the arena.
  CHECK(after.lower_bound <= after.arena_bytes());
  CHECK(after.no_reuse - after.regions.weights - after.regions.io >= 0);
  for (const int32_t index : LiveAt(after, after.peak_time)) {
    CHECK(!IsOnHost(after.buffers[static_cast<size_t>(index)].region));
  }
}

TEST_CASE("what is offloaded is packed by lifetime in the host's memory") {
  const Graph step = StepOf("gpt-nano", {.batch = 4, .seq = 32});
  std::vector<Offloadable> values = FindOffloadable(step);
  std::erase_if(values, [](const Offloadable& o) { return o.persists(); });
  REQUIRE(values.size() > 10);
  const Graph moved = *Offload(step, values);
  const Plan before = *PlanMemory(step);
  const Plan after = *PlanMemory(moved);
  CHECK(ValidatePlan(moved, after).empty());
  CHECK(after.regions.state == before.regions.state);
  CHECK(after.regions.host_state == 0);
  Bytes sum = 0;
  for (const Offloadable& o : values) sum += AlignUp(o.bytes, after.alignment);
  CHECK(after.regions.host_offload <= sum);
  CHECK(after.regions.host_offload > sum / 2);
  CHECK(after.arena_bytes() < before.arena_bytes());
}

TEST_CASE("programs over one layout agree on states in the host's memory") {
  const Graph step = StepOf("mlp", {.batch = 8});
  const Graph moved = *Offload(step, FindOffloadable(step));
  const Plan plan = *PlanMemory(moved);
  const WeightLayout layout = WeightLayout::FromForward(moved, plan);
  CHECK(layout.states().empty());
  CHECK(layout.on_host().size() == step.Leaves(Role::kState).size());
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

// Nodes as numbers: "2, again 6 8, always 8, updated 8".
std::string MoveText(const Offloadable& moved) {
  std::string text = StrCat(moved.to, ", again");
  for (const NodeId node : moved.again) text += StrCat(" ", node);
  text += ", always";
  for (const NodeId node : moved.always) text += StrCat(" ", node);
  return StrCat(text, ", updated ", moved.updated);
}

TEST_CASE(
    "a param is reloaded for readers that are far apart, and its update") {
  const auto graph = ParseGraph(R"(stowage-ir 1
graph "g" {
  e: f32(64) = param
  w: f32(64) = param
  x: f32(64) = input
  lr: f32() = input
  a: f32(64) = mul(x, e)
  b: f32(64) = tanh(a)
  c: f32(64) = mul(b, w)
  d: f32(64) = mul(c, e)
  gd: f32(64) gradient = mul(d, e) @backward("d")
  gw: f32(64) gradient = mul(gd, b) @backward("w")
  gb: f32(64) gradient = mul(gd, w) @backward("b")
  ga: f32(64) gradient = mul(gb, e) @backward("a")
  w2: f32(64) = sgd_update(w, gw, lr) {decay=0.0} @update("w")
  a1: f32(64) = mul(x, e)
  output "ga" = ga
  output "a1" = a1
}
)");
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto frozen = FindOffloadableParams(*graph, /*trained=*/false);
  REQUIRE(frozen.size() == 1);
  CHECK(frozen[0].value == *graph->Find("e"));
  // Nothing lies between nodes 3 and 4; node 9 is of the next micro-batch.
  CHECK(MoveText(frozen[0]) == "0, again 3 7 9, always 3 9, updated -1");
  const auto all = FindOffloadableParams(*graph, /*trained=*/true);
  REQUIRE(all.size() == 2);
  CHECK(all[1].value == *graph->Find("w"));
  CHECK(MoveText(all[1]) == "2, again 6 8, always 8, updated 8");

  const Graph moved = *Offload(*graph, all);
  const auto count = [&](OpKind op) {
    return std::ranges::count(moved.nodes(), op, &Node::op);
  };
  CHECK(count(OpKind::kReload) == 4 + 3);
  CHECK(count(OpKind::kOffloadUpdate) == 1);
  const Plan plan = *PlanMemory(moved);
  CHECK(plan.regions.weights == 0);
  CHECK(plan.regions.host_state == 2 * 256);
  CHECK(ValidatePlan(moved, plan).empty());
  // A program that another has moved params for reads them, too.
  const WeightLayout layout = WeightLayout::FromForward(moved, plan);
  const Graph given = *MoveGiven(*graph, layout);
  CHECK(Equal(given, moved));
  CHECK(PlanMemory(given, {.weights = layout})->regions.weights == 0);
}

}  // namespace
}  // namespace stowage::fit
