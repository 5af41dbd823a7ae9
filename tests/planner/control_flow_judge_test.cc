// What the judge says of plans of bodies that are wrong.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"
#include "planner/plan.h"
#include "planner/validate_plan.h"
#include "tests/planner/planned_bodies.h"

namespace stowage {
namespace {

// A loop with a second place, scratch of its own and three kinds of operands.
Graph Sample() {
  GraphBuilder g("net");
  const Value h = g.Input("h", DType::kF32, {1, 4});
  const Value w = g.Input("w", DType::kF32, {4, 4});
  const Value xs = g.Input("xs", DType::kF32, {3, 1, 4});
  const LoopResults run = Loop(
      g, 3, {.carried = {h}, .sliced = {xs}, .whole = {w}}, [](LoopBody& body) {
        const Value a = Tanh(body.sliced(0));
        const Value b = MatMul(a, body.whole(0));
        body.Sum(b);
        const Value next = MatMul(body.carried(0), body.whole(0));
        body.Next(0, next);
        body.Stack(Add(MatMul(b, body.whole(0)), next));
      });
  g.Output("last", run.carried[0]);
  g.Output("all", run.stacked[0]);
  g.Output("sum", run.summed[0]);
  return Finish(g);
}

TEST_CASE("the judge finds what is wrong with the plan of a body") {
  const Graph graph = Sample();
  const Plan good = PlanOf(graph);
  const Graph& body = *BodiesOf(graph.node(0)).front();
  const auto buffer = [&](Plan& plan, const char* value) -> int32_t& {
    return plan.bodies[0]
        .plan.buffer_of[static_cast<size_t>(*body.Find(value))];
  };
  struct Break {
    const char* what;
    std::function<void(Plan&)> change;
  };
  const Break breaks[] = {
      {"no plan of the body", [](Plan& p) { p.bodies.clear(); }},
      {"one plan too many", [](Plan& p) { p.bodies.push_back(p.bodies[0]); }},
      {"of another node", [](Plan& p) { p.bodies[0].node = 1; }},
      {"no second place", [](Plan& p) { p.bodies[0].second_of[0] = -1; }},
      {"a second place of what has one",
       [](Plan& p) { p.bodies[0].second_of[1] = p.bodies[0].second_of[0]; }},
      {"no second places at all",
       [](Plan& p) { p.bodies[0].second_of.clear(); }},
      {"a workspace that is too small",
       [](Plan& p) {
         p.buffers[static_cast<size_t>(p.workspace_of[0])].size -= 1;
       }},
      {"a result where an operand is",
       [&](Plan& p) { buffer(p, "matmul_2") = buffer(p, "w"); }},
      {"two operands in one place",
       [&](Plan& p) { buffer(p, "h") = buffer(p, "xs"); }},
      {"a carried value in place that is still read",
       [&](Plan& p) {
         buffer(p, "h") = buffer(p, "matmul_2");
         p.bodies[0].second_of[0] = -1;
       }},
      {"what the body makes for itself in an operand",
       [&](Plan& p) { buffer(p, "tanh_1") = buffer(p, "xs"); }},
      {"an output in the body's arena",
       [&](Plan& p) { buffer(p, "matmul_2") = buffer(p, "tanh_1"); }},
      {"a slot outside that is larger than what lies there",
       [&](Plan& p) {
         p.bodies[0].plan.buffers[static_cast<size_t>(buffer(p, "xs"))].size +=
             16;
       }},
      {"a slot outside that begins elsewhere",
       [&](Plan& p) {
         p.bodies[0].plan.buffers[static_cast<size_t>(buffer(p, "xs"))].offset =
             16;
       }},
      {"a slot outside in a plan of no body",
       [&](Plan& p) {
         p.buffers[static_cast<size_t>(p.buffer_of[0])].region =
             Region::kOutside;
       }},
      {"two values of the body in the same bytes",
       [&](Plan& p) {
         auto& buffers = p.bodies[0].plan.buffers;
         buffers[static_cast<size_t>(buffer(p, "matmul_1"))].offset =
             buffers[static_cast<size_t>(buffer(p, "tanh_1"))].offset;
       }},
  };
  for (const Break& broken : breaks) {
    INFO(std::string(broken.what));
    Plan plan = good;
    broken.change(plan);
    CHECK_FALSE(ValidatePlan(graph, plan).empty());
  }
}

TEST_CASE("values that each take two places do not share the second") {
  GraphBuilder g("net");
  const Value a = g.Input("a", DType::kF32, {1, 4});
  const Value b = g.Input("b", DType::kF32, {1, 4});
  const Value w = g.Input("w", DType::kF32, {4, 4});
  Loop(g, 3, {.carried = {a, b}, .whole = {w}}, [](LoopBody& body) {
    for (const size_t i : {0u, 1u}) {
      body.Next(i, MatMul(body.carried(i), body.whole(0)));
    }
  });
  const Graph graph = Finish(g);
  Plan plan = PlanOf(graph);
  CHECK(plan.bodies[0].plan.arena_bytes() == 2 * kSlot);
  plan.bodies[0].second_of[1] = plan.bodies[0].second_of[0];
  CHECK_FALSE(ValidatePlan(graph, plan).empty());
}

TEST_CASE(
    "the lower bound of a loop is below its body's arena only if packed so") {
  const Graph graph = Sample();
  const Plan plan = PlanOf(graph);
  CHECK(plan.bodies[0].plan.lower_bound <= plan.bodies[0].plan.arena_bytes());
  CHECK(plan.lower_bound <= plan.arena_bytes());
  CHECK((plan.optimal == (plan.lower_bound == plan.arena_bytes())));
}

}  // namespace
}  // namespace stowage
