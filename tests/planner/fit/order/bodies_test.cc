// The order of nodes in the bodies of loops and branches: what it frees, by hand.

#include "ir/bodies.h"

#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/order/order.h"
#include "planner/plan_memory.h"

namespace stowage::fit {
namespace {

constexpr Bytes kWide = 64 * 64 * 4;

// Two products of 64 x 64, made before either is summed up: sum x x' + sum x' x.
Value TwoWide(Value x, bool in_turn) {
  const Value column = Reshape(x, {64, 1}), row = Reshape(x, {1, 64});
  const Value a = MatMul(column, row);
  const Value early = in_turn ? ReduceSum(a, {0}) : Value();
  const Value b = MatMul(column, Tanh(row));
  const Value of_a = in_turn ? early : ReduceSum(a, {0});
  return Add(of_a, ReduceSum(b, {0}));
}

enum class In { kLoop, kBranch, kBranchInLoop, kLoopOfRanks };

Graph Net(In in, bool in_turn = false) {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {64});
  const Value flag = g.Input("flag", DType::kBool, {});
  const auto branch = [&](GraphBuilder& to, Value index, Value of) {
    return Cond(to, index, {of},
                {[](CondBody& body) { return std::vector{body.operand(0)}; },
                 [&](CondBody& body) {
                   return std::vector{TwoWide(body.operand(0), in_turn)};
                 }})[0];
  };
  if (in == In::kBranch) {
    g.Output("y", branch(g, flag, x));
  } else {
    const LoopResults run =
        Loop(g, 3, {.carried = {x}, .whole = {flag}}, [&](LoopBody& body) {
          const Value h = body.carried(0);
          Value next = in == In::kBranchInLoop
                           ? branch(body.builder(), body.whole(0), Tanh(h))
                           : TwoWide(h, in_turn);
          if (in == In::kLoopOfRanks) next = AllReduce(next, 2);
          body.Next(0, next);
        });
    g.Output("y", run.carried[0]);
  }
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

Bytes ArenaOf(const Graph& graph) {
  const Result<Plan> plan = PlanMemory(graph);
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  return plan->arena_bytes();
}

Graph Ordered(const Graph& graph) {
  Result<Graph> ordered = OrderBodies(graph, {}, kOrderEffort / 100);
  REQUIRE_MESSAGE(ordered.ok(), ordered.error().message);
  return *std::move(ordered);
}

TEST_CASE("of two wide values in a body one is there at a time") {
  for (const In in : {In::kLoop, In::kBranch, In::kBranchInLoop}) {
    CAPTURE(static_cast<int>(in));
    const Graph given = Net(in);
    const Graph ordered = Ordered(given);
    CHECK(ArenaOf(given) - ArenaOf(ordered) > kWide - 2 * 256);
    CHECK(ArenaOf(ordered) <= ArenaOf(Net(in, /*in_turn=*/true)));
    CHECK(ordered.num_nodes() == given.num_nodes());
  }
}

TEST_CASE("bodies in which ranks meet stay as they are") {
  const Graph given = Net(In::kLoopOfRanks);
  CHECK(HoldsCollectives(given));
  CHECK_FALSE(HoldsCollectives(Net(In::kLoop)));
  CHECK(ToText(Ordered(given)) == ToText(given));
}

TEST_CASE("bodies in a good order stay as they are, as graphs without do") {
  const Graph good = Ordered(Net(In::kLoop));
  CHECK(ToText(Ordered(good)) == ToText(good));
  GraphBuilder g("plain");
  g.Output("y", TwoWide(g.Input("x", DType::kF32, {64}), false));
  const Graph plain = *g.Finish();
  CHECK(ToText(Ordered(plain)) == ToText(plain));
}

TEST_CASE("--order memory orders bodies, too, and costs nothing") {
  const Graph given = Net(In::kLoop);
  for (const NodeOrder order : {NodeOrder::kGiven, NodeOrder::kMemory}) {
    MemoryOptimizations optimizations = NoOptimizations();
    optimizations.order = order;
    StepFitter fitter(OfGraph(given), {.optimizations = optimizations});
    const Result<FittedStep> step = fitter.Fit(ArenaOf(given) - kWide / 2);
    CHECK(step.ok() == (order == NodeOrder::kMemory));
    if (!step.ok()) continue;
    CHECK(step->plan.order == "memory");
    CHECK(step->price.extra_flops == 0);
  }
}

}  // namespace
}  // namespace stowage::fit
