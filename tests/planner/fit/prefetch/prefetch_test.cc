#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "tests/support/random_graph.h"

namespace stowage::fit {
namespace {

constexpr Bytes kEnough = Bytes{1} << 40;

Graph Parse(std::string_view text) {
  auto graph = ParseGraph(text);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

// Ten for every node, `copy` for a reload.
std::vector<double> Costs(const Graph& graph, double copy) {
  std::vector<double> costs;
  for (const Node& node : graph.nodes()) {
    costs.push_back(node.op == OpKind::kReload ? copy : 10);
  }
  return costs;
}

std::string OrderOf(const Graph& graph) {
  std::string names;
  for (const Node& node : graph.nodes()) {
    names +=
        StrCat(names.empty() ? "" : " ", graph.value(node.results[0]).name);
  }
  return names;
}

Prefetched Move(const Graph& graph, Bytes budget, double copy,
                const PlanOptions& options) {
  const Plan plan = *PlanMemory(graph, options);
  auto moved = Prefetch(
      graph, plan, budget, [copy](const Graph& of) { return Costs(of, copy); },
      options);
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  CHECK(moved->plan.arena_bytes() <= budget);
  CHECK(ValidatePlan(moved->graph, moved->plan).empty());
  return std::move(*moved);
}

// Every value takes a slot; three live at "f", two and fewer at others.
constexpr std::string_view kChain = R"(stowage-ir 1
graph "g" {
  x: f32(64) = input
  a: f32(64) = tanh(x)
  kept: f32(64) = offload(a)
  b: f32(64) = tanh(a)
  c: f32(64) = tanh(b)
  d: f32(64) = tanh(c)
  e: f32(64) = tanh(d)
  again: f32(64) = reload(kept)
  f: f32(64) = mul(e, again)
  loss: f32() = reduce_sum(f) {axes=[0], keep=0}
  output "loss" = loss
}
)";

TEST_CASE("a reload stands as much work ahead as it takes") {
  const Graph graph = Parse(kChain);
  const PlanOptions options{.in_place = false};
  const Bytes arena = PlanMemory(graph, options)->arena_bytes();
  const auto order = [&](double copy) {
    return OrderOf(Move(graph, arena, copy, options).graph);
  };
  CHECK(order(0) == OrderOf(graph));
  CHECK(order(1) == "a kept b c d again e f loss");
  CHECK(order(10) == "a kept b c d again e f loss");
  CHECK(order(25) == "a kept b again c d e f loss");
  // Not before what it reloads has been offloaded.
  CHECK(order(1000) == "a kept again b c d e f loss");
}

TEST_CASE("where the budget leaves no room, a reload moves no further up") {
  const Graph graph = Parse(kChain);
  const WorkspaceFn workspace = [](const Graph& g, const Node& node) {
    return g.value(node.results[0]).name == "c" ? Bytes{1024} : Bytes{0};
  };
  const PlanOptions options{.in_place = false,
                            .device = {.workspace = workspace}};
  const Bytes arena = PlanMemory(graph, options)->arena_bytes();
  CHECK(OrderOf(Move(graph, arena, 1000, options).graph) ==
        "a kept b c again d e f loss");
  CHECK(OrderOf(Move(graph, arena + 255, 1000, options).graph) ==
        "a kept b c again d e f loss");
  CHECK(OrderOf(Move(graph, arena + 256, 1000, options).graph) ==
        "a kept again b c d e f loss");
}

// The chain in each iteration of a loop, in which two of these live at a time.
Graph ChainInLoop() {
  GraphBuilder g("g");
  const Value xs = g.Input("xs", DType::kF32, {3, 64});
  const LoopResults run = Loop(g, 3, {.sliced = {xs}}, [](LoopBody& body) {
    GraphBuilder& b = body.builder();
    const Value a = b.Name("a", Tanh(body.sliced(0)));
    const Value kept = b.Name("kept", Offload(a));
    Value x = a;
    for (const char* const name : {"b", "c", "d", "e"}) {
      x = b.Name(name, Tanh(x));
    }
    body.Stack(b.Name("f", Mul(x, b.Name("again", Reload(kept)))));
  });
  g.Output("y", run.stacked[0]);
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

TEST_CASE(
    "a reload in a body moves up in it, as far as an iteration has room") {
  const Graph graph = ChainInLoop();
  const PlanOptions options{.in_place = false};
  const Bytes arena = PlanMemory(graph, options)->arena_bytes();
  const auto order = [&](Bytes budget, double copy) {
    const Prefetched moved = Move(graph, budget, copy, options);
    const std::string names = OrderOf(*BodiesOf(moved.graph.node(0)).front());
    CHECK(moved.moved ==
          (names == OrderOf(*BodiesOf(graph.node(0)).front()) ? 0 : 1));
    return names;
  };
  CHECK(order(arena, 1000) == "a kept b c d e again f");
  CHECK(order(arena + 255, 1000) == "a kept b c d e again f");
  CHECK(order(arena + 256, 1000) == "a kept again b c d e f");
  CHECK(order(arena + 256, 25) == "a kept b again c d e f");
  CHECK(order(kEnough, 1) == "a kept b c d again e f");
}

constexpr std::string_view kTwo = R"(stowage-ir 1
graph "g" {
  x: f32(64) = input
  a: f32(64) = tanh(x)
  kept_a: f32(64) = offload(a)
  b: f32(64) = tanh(a)
  kept_b: f32(64) = offload(b)
  c: f32(64) = tanh(b)
  d: f32(64) = tanh(c)
  e: f32(64) = tanh(d)
  f: f32(64) = tanh(e)
  again_a: f32(64) = reload(kept_a)
  again_b: f32(64) = reload(kept_b)
  g: f32(64) = mul(again_a, again_b)
  h: f32(64) = mul(g, f)
  loss: f32() = reduce_sum(h) {axes=[0], keep=0}
  output "loss" = loss
}
)";

TEST_CASE("copies go one after the other") {
  const Prefetched moved = Move(Parse(kTwo), kEnough, 20, {});
  CHECK(moved.moved == 2);
  CHECK(OrderOf(moved.graph) ==
        "a kept_a b kept_b again_a c d again_b e f g h loss");
}

TEST_CASE("what one reload takes of the room, another cannot") {
  const Graph graph = Parse(kTwo);
  // Four are alive at "g". Two are at "d", and these bytes make them three.
  const WorkspaceFn workspace = [](const Graph& g, const Node& node) {
    return g.value(node.results[0]).name == "d" ? Bytes{256} : Bytes{0};
  };
  const PlanOptions options{.in_place = false,
                            .device = {.workspace = workspace}};
  const Bytes arena = PlanMemory(graph, options)->arena_bytes();
  CHECK(OrderOf(Move(graph, arena, 1000, options).graph) ==
        "a kept_a b kept_b again_b c d again_a e f g h loss");
}

TEST_CASE("a reload that cannot begin early leaves the link to others") {
  const Graph graph = Parse(R"(stowage-ir 1
graph "g" {
  x: f32(64) = input
  a: f32(64) = tanh(x)
  kept_a: f32(64) = offload(a)
  c: f32(64) = tanh(a)
  d: f32(64) = tanh(c)
  e: f32(64) = tanh(d)
  b: f32(64) = tanh(e)
  kept_b: f32(64) = offload(b)
  f: f32(64) = tanh(b)
  again_a: f32(64) = reload(kept_a)
  again_b: f32(64) = reload(kept_b)
  g: f32(64) = mul(again_a, again_b)
  h: f32(64) = mul(g, f)
  loss: f32() = reduce_sum(h) {axes=[0], keep=0}
  output "loss" = loss
}
)");
  // "again_b" can begin when "f" does; "again_a" is to end by then.
  CHECK(OrderOf(Move(graph, kEnough, 20, {}).graph) ==
        "a kept_a c d again_a e b kept_b again_b f g h loss");
}

TEST_CASE("a state may be reloaded before the first node") {
  const Graph graph = Parse(R"(stowage-ir 1
graph "g" {
  w: f32(64) = param
  m: f32(64) = host_state
  lr: f32() = input
  a: f32(64) = tanh(w)
  dw: f32(64) gradient = mul(a, a) @backward("w")
  m_now: f32(64) = reload(m) @update("w")
  w2: f32(64), m2: f32(64) = momentum_update(w, m_now, dw, lr) {decay=0.0, momentum=0.5} @update("w")
  m3: f32(64) = offload_update(m, m2) @update("w")
}
)");
  CHECK(OrderOf(Move(graph, kEnough, 1000, {}).graph) == "m_now a dw w2 m3");
}

TEST_CASE("random steps whose reloads move up fit what they are given") {
  int moved = 0, unmoved = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed ", seed);
    const Graph step = testing::MakeRandomStep(seed);
    const Graph graph = *Offload(step, FindOffloadable(step));
    const Bytes arena = PlanMemory(graph)->arena_bytes();
    for (const Bytes more : {arena / 100, arena / 10, arena}) {
      const Prefetched made = Move(graph, arena + more, 50, {});
      CHECK(made.graph.num_nodes() == graph.num_nodes());
      ++(made.moved > 0 ? moved : unmoved);
      if (more == arena && FindHostUse(graph).values > 0) {
        CHECK(made.moved > 0);
      }
    }
  }
  CHECK(moved > 150);
  MESSAGE(moved, " plans with reloads moved, ", unmoved, " without");
}

}  // namespace
}  // namespace stowage::fit
