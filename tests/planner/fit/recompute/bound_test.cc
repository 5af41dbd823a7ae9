#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "planner/fit/recompute/chain.h"
#include "planner/fit/recompute/simulation.h"
#include "planner/lifetimes.h"
#include "tests/support/random_graph.h"

namespace stowage::fit {
namespace {

TEST_CASE(
    "the fullest times are nodes that run, views that nothing wants not") {
  // Live while each node runs, in units of 16 KiB; views of no reader come first
  // and in between, and are not run.
  GraphBuilder g("views");
  const Value x = g.Input("x", DType::kF32, {64, 64});
  const Value a = g.Name("a", Exp(x));                               // 1
  g.Name("v", Permute(a, {1, 0}));                                   // none
  const Value w = g.Name("w", Permute(a, {1, 0}));                   // none
  g.Name("u", Permute(w, {1, 0}));                                   // none
  const Value b = g.Name("b", Concat(std::vector<Value>{a, a}, 0));  // 3
  const Value c = g.Name("c", Concat(std::vector<Value>{b, b}, 0));  // 6
  const Value d = g.Name("d", Tanh(Slice(c, 0, 0, 64)));             // 4, 5
  const Value e = g.Name("e", Exp(d));                               // 2
  g.Name("t", Permute(e, {1, 0}));                                   // none
  const Value f = Concat(std::vector<Value>{e, e, e}, 0);
  const Value h = Concat(std::vector<Value>{g.Name("f", f), f}, 0);  // 4
  g.Output("out", ReduceSum(g.Name("h", h), {0, 1}));                // 9, 6
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  REQUIRE(graph->num_nodes() == 13);

  Simulation simulation(*graph, {.in_place = false});
  REQUIRE(simulation.Run(simulation.AsGiven()));
  REQUIRE(simulation.items().size() == 9);
  const auto names = [&](int count) {
    std::vector<std::string> of_nodes;
    for (const NodeId node : FullestTimes(simulation, count)) {
      of_nodes.push_back(graph->value(graph->node(node).results[0]).name);
    }
    REQUIRE(!of_nodes.empty());
    std::sort(of_nodes.begin() + 1, of_nodes.end());
    return of_nodes;
  };
  // Of a, b, c, the view, d, e, f, h and the sum: all, halves and thirds.
  CHECK(names(1) == std::vector<std::string>{"h"});
  CHECK(names(2) == std::vector<std::string>{"h", "c"});
  CHECK(names(3) == std::vector<std::string>{"h", "c", "d"});
  CHECK(names(24).size() == 9);
}

constexpr Bytes kUnit = 4096 * 4;  // of 4,096 elements in f32

// Bytes that have to be there at a node, of which operands, results and scratch are
// counted by hand.
TEST_CASE("a node has to have its operands, its result and its scratch") {
  GraphBuilder g("products");
  const Value x = g.Input("x", DType::kF32, {64, 64});
  const Value a = Exp(x);        // may lie where x was, which is no activation
  const Value b = MatMul(a, a);  // a, b
  const Value c = MatMul(a, b);  // a, b, c
  const Value d = MatMul(c, c);  // c, d; a and b may be made again
  const Value e = MatMul(a, b);  // a, b, e; d may be made again
  const Value f = MatMul(d, e);  // d, e, f
  g.Output("out", ReduceSum(f, {0, 1}));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto scratch = [](const Graph&, const Node& node) {
    return node.op == OpKind::kMatMul ? 4 * kUnit : 0;
  };
  const Simulation simulation(*graph, {.workspace = scratch});
  const RecomputeBound bound(*graph, simulation);
  const std::vector<Bytes> units = {0, 2 + 4, 3 + 4, 2 + 4, 3 + 4, 3 + 4};
  for (NodeId time = 0; time < 6; ++time) {
    CAPTURE(time);
    CHECK(bound.Forced(time) == units[static_cast<size_t>(time)] * kUnit);
  }
  CHECK(bound.MostForced(/*gradients=*/true) == 7 * kUnit);
}

TEST_CASE("a gradient that is not made again waits, and so does an output") {
  const Result<Graph> graph = ParseGraph(R"(stowage-ir 1
graph "step" {
  x: f32(4096) = input
  w: f32(4096) = param
  lr: f32() = input
  y: f32(4096) = stand_in(x, w) {dtype=f32, ranks=[1], dims=[4096], flops=1.0}
  loss: f32() = reduce_mean(y) {axes=[0], keep=0}
  dy: f32(4096) gradient = stand_in(y) {dtype=f32, ranks=[1], dims=[4096], flops=1.0} @backward("loss")
  wide: f32(16384) gradient = stand_in(y) {dtype=f32, ranks=[1], dims=[16384], flops=1.0} @backward("y")
  dw: f32(4096) gradient = stand_in(dy) {dtype=f32, ranks=[1], dims=[4096], flops=1.0} @backward("y")
  w2: f32(4096) = sgd_update(w, dw, lr) {decay=0.0} @update("w")
  output "loss" = loss
}
)");
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Simulation simulation(*graph, {});
  const RecomputeBound bound(*graph, simulation);
  // "wide", y, and the loss; dy is wanted by the next.
  constexpr NodeId kWide = 3;
  const Bytes least = (4 + 1) * kUnit + 256;
  CHECK(bound.Forced(kWide) == least);
  CHECK(bound.MostForced(/*gradients=*/true) == least);
  CHECK(bound.MostForced(/*gradients=*/false) == least + kUnit);
  // No more than what was stored before: the cut lets dy go.
  CHECK(bound.LeastStored(kWide) == 0);
  CHECK(bound.Tradeoffs(kWide).front().stored == kUnit);
  CHECK(bound.Tradeoffs(kWide).back().stored == 0);
}

TEST_CASE("in random steps with such views no node is fuller than the first") {
  int dropped = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed ", seed);
    const Graph step = testing::MakeRandomStep(seed);
    Simulation simulation(step, {});
    REQUIRE(simulation.Run(simulation.AsGiven()));
    // The step without these views: its times are its nodes.
    const Result<Graph> run = Rewrite(step, simulation);
    REQUIRE_MESSAGE(run.ok(), run.error().message);
    dropped += step.num_nodes() - run->num_nodes();
    std::vector<Bytes> live(static_cast<size_t>(run->num_nodes()));
    for (const LiveBuffer& buffer : ComputeLifetimes(*run, {}).buffers) {
      if (buffer.region != Region::kActivations) continue;
      for (Time t = buffer.lower;
           t < std::min<Time>(buffer.upper, run->num_nodes()); ++t) {
        live[static_cast<size_t>(t)] += AlignUp(buffer.size, Bytes{256});
      }
    }
    const auto live_at = [&](NodeId of_step) {
      const ValueId result = step.node(of_step).results[0];
      const auto there = run->Find(step.value(result).name);
      REQUIRE(there.has_value());
      return live[static_cast<size_t>(run->value(*there).producer)];
    };
    for (const int count : {1, 4, 24}) {
      const std::vector<NodeId> times = FullestTimes(simulation, count);
      REQUIRE(static_cast<int>(times.size()) ==
              std::min(count, run->num_nodes()));
      CHECK(live_at(times.front()) == *std::ranges::max_element(live));
    }
  }
  CHECK(dropped > 50);
}

}  // namespace
}  // namespace stowage::fit
