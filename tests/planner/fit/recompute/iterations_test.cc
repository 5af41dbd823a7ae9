// Which iterations of loops are made again, and what that frees, worked out by hand. That no
// bit changes is a law: tests/laws/control_flow_test.cc.

#include "planner/fit/recompute/iterations.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/text.h"

namespace stowage {
namespace {

enum class Also {
  kNothing,
  kWritesWhatIterationsRead,
  kGivesOutWhatTheyMake,
  kHasEqualSlices,
};

// Iterations of h = a * a for a = tanh(h * w + x).
Graph Step(Also also, int64_t iterations = 5) {
  GraphBuilder g("net");
  const Value h = g.Input("h", DType::kF32, {4});
  const Value xs =
      also == Also::kHasEqualSlices
          ? BroadcastTo(g.Input("xs", DType::kF32, {1, 4}), {iterations, 4})
          : g.Input("xs", DType::kF32, {iterations, 4});
  const Value scale = g.State("scale", DType::kF32, {4}, Init::Ones());
  const Value w = Mul(g.Param("w", DType::kF32, {4}, Init::Ones()), scale);
  const LoopResults run =
      Loop(g, iterations, {.carried = {h}, .sliced = {xs}, .whole = {w, scale}},
           [&](LoopBody& body) {
             const Value in = Mul(body.sliced(0), body.whole(1));
             const Value a = Tanh(Add(Mul(body.carried(0), body.whole(0)), in));
             if (also == Also::kGivesOutWhatTheyMake) body.Stack(a);
             body.Next(0, Mul(a, a));
           });
  if (also == Also::kWritesWhatIterationsRead) Assign(scale, Neg(scale));
  if (also == Also::kGivesOutWhatTheyMake) g.Output("as", run.stacked[0]);
  g.Output("loss", g.Name("loss", ReduceSum(run.carried[0], {0})));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Result<Graph> step =
      BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

fit::RecomputedIterations Recompute(const Graph& step,
                                    std::optional<int64_t> segment = 1) {
  Result<fit::RecomputedIterations> made =
      fit::RecomputeIterations(step, {.segment = segment});
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  return *std::move(made);
}

TEST_CASE("an iteration is made again from what it carries, and its slices") {
  const Graph step = Step(Also::kNothing);
  const fit::RecomputedIterations made = Recompute(step);
  REQUIRE(made.loops.size() == 1);
  // Backward reads a, which takes two products, a sum and a tanh; and h, of every iteration.
  CHECK(made.loops[0].told.freed == 5 * 4 * 4);
  CHECK(made.loops[0].told.times == 5);
  CHECK(made.loops[0].told.flops > 5 * 4 * 3);  // one an element, but for tanh
  CHECK(made.loops[0].nodes_again == 5 * 4);
  REQUIRE(made.graph.num_nodes() == step.num_nodes());
  int loops = 0;
  for (const Node& node : made.graph.nodes()) {
    if (node.op != OpKind::kLoop) continue;
    const LoopParts parts = PartsOfLoop(node);
    // Forward stacks h alone; backward takes it and xs by slices, w and scale whole.
    if (node.phase == Phase::kForward) {
      CHECK(parts.stacked == 1);
    } else {
      CHECK(parts.sliced == 2);
      CHECK(parts.whole == 2);
    }
    ++loops;
  }
  CHECK(loops == 2);
  // There is nothing left to be made again.
  CHECK(Recompute(made.graph).loops.empty());
}

// The loops of `graph` by their phase, of which each has one.
LoopParts LoopOf(const Graph& graph, Phase phase) {
  for (const Node& node : graph.nodes()) {
    if (node.op == OpKind::kLoop && node.phase == phase) {
      return PartsOfLoop(node);
    }
  }
  FAIL("no loop");
  STOWAGE_CHECK(false);
}

TEST_CASE("a segment is made again from what it begins with, and its slices") {
  const Graph step = Step(Also::kNothing, 6);
  const fit::RecomputedIterations made = Recompute(step, 3);
  REQUIRE(made.loops.size() == 1);
  CHECK(made.loops[0].segment == 3);
  // Neither a nor h of every iteration is stacked. The product that is the next h runs again
  // as well, and a copy of h.
  CHECK(made.loops[0].told.freed == 2 * 6 * 4 * 4);
  CHECK(made.loops[0].told.times == 6);
  CHECK(made.loops[0].nodes_again == 6 * (4 + 2));
  // Two segments of three iterations: forward stacks h of both.
  const LoopParts forward = LoopOf(made.graph, Phase::kForward);
  CHECK(forward.iterations == 2);
  CHECK(forward.stacked == 1);
  CHECK(forward.body.num_nodes() == 2);
  CHECK(LoopOf(forward.body, Phase::kForward).iterations == 3);
  CHECK(LoopOf(forward.body, Phase::kForward).stacked == 0);
  // Backward takes that and xs by slices; in it are the iterations, and those that go back.
  const LoopParts backward = LoopOf(made.graph, Phase::kBackward);
  CHECK(backward.iterations == 2);
  CHECK(backward.reverse);
  CHECK(backward.sliced == 2);
  CHECK(backward.whole == 2);
  const LoopParts again = LoopOf(backward.body, Phase::kForward);
  CHECK(again.iterations == 3);
  CHECK(!again.reverse);
  CHECK(again.stacked == 2);
  const LoopParts back = LoopOf(backward.body, Phase::kBackward);
  CHECK(back.iterations == 3);
  CHECK(back.reverse);
  // Sums go on from one segment to the next.
  CHECK(back.carried == backward.carried + backward.summed);
  CHECK(backward.summed == 1);
  CHECK(Recompute(made.graph, 3).loops.empty());
}

TEST_CASE("iterations that segments do not divide are made again one by one") {
  for (const auto& each : {std::pair{5, 2}, {6, 4}, {1, 2}}) {
    CAPTURE(each.first);
    const Graph step = Step(Also::kNothing, each.first);
    const fit::RecomputedIterations made = Recompute(step, each.second);
    REQUIRE(made.loops.size() == 1);
    CHECK(made.loops[0].segment == 1);
    CHECK(ToText(made.graph) == ToText(Recompute(step).graph));
  }
}

TEST_CASE("slices that do not lie one behind the other are not cut") {
  const fit::RecomputedIterations made =
      Recompute(Step(Also::kHasEqualSlices, 6), 3);
  REQUIRE(made.loops.size() == 1);
  CHECK(made.loops[0].segment == 1);
}

// tanh(h * w), in so many branches in one another.
Value InBranches(Value h, Value w, int depth) {
  if (depth == 0) return Tanh(Mul(h, w));
  return Cond(*h.builder(), Greater(ReduceSum(h), ReduceSum(w)), {h, w},
              {[=](CondBody& body) {
                 return std::vector{
                     InBranches(body.operand(0), body.operand(1), depth - 1)};
               },
               [](CondBody& body) { return std::vector{body.operand(0)}; }})[0];
}

TEST_CASE(
    "there is one more body in a segment, and in a loop over micro-batches") {
  for (const int depth : {kMaxBodyDepth - 2, kMaxBodyDepth - 1}) {
    CAPTURE(depth);
    GraphBuilder g("net");
    const Value h = g.Input("h", DType::kF32, {4});
    const Value w = g.Param("w", DType::kF32, {4}, Init::Ones());
    const LoopResults run =
        Loop(g, 6, {.carried = {h}, .whole = {w}}, [&](LoopBody& body) {
          const Value a = Tanh(Mul(body.carried(0), body.whole(0)));
          body.Next(0, InBranches(a, body.whole(0), depth - 1));
        });
    g.Output("loss", g.Name("loss", ReduceSum(run.carried[0])));
    const Result<Graph> forward = g.Finish();
    REQUIRE_MESSAGE(forward.ok(), forward.error().message);
    const Result<Graph> step =
        BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    const fit::RecomputedIterations made = Recompute(*step, 3);
    REQUIRE(made.loops.size() == 1);
    CHECK(made.loops[0].segment == (depth < kMaxBodyDepth - 1 ? 3 : 1));
    CHECK(ParseGraph(ToText(made.graph)).ok());
  }
}

TEST_CASE("an iteration is kept whose operands are others by then") {
  CHECK(Recompute(Step(Also::kWritesWhatIterationsRead)).loops.empty());
  CHECK(Recompute(Step(Also::kWritesWhatIterationsRead, 6), 3).loops.empty());
}

TEST_CASE(
    "an iteration is kept that carries what has too many axes to be stacked") {
  GraphBuilder g("net");
  const Shape shape = {1, 1, 1, 1, 1, 1, 1, 4};
  const Value h = g.Input("h", DType::kF32, shape);
  const Value w = g.Param("w", DType::kF32, {4}, Init::Ones());
  const LoopResults run =
      Loop(g, 6, {.carried = {h}, .whole = {w}}, [&](LoopBody& body) {
        const Value row = Reshape(Neg(body.carried(0)), {4});
        const Value a = Tanh(Add(row, body.whole(0)));
        body.Next(0, Add(body.carried(0), Reshape(a, shape)));
      });
  g.Output("loss", g.Name("loss", ReduceSum(run.carried[0])));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Result<Graph> step =
      BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  for (const std::optional<int64_t> segment :
       {std::optional<int64_t>(1), std::optional<int64_t>(3)}) {
    CHECK(Recompute(*step, segment).loops.empty());
  }
}

TEST_CASE("what is given out is kept, and so read where it is") {
  CHECK(Recompute(Step(Also::kGivesOutWhatTheyMake)).loops.empty());
  // In segments there is h left to be made again.
  const fit::RecomputedIterations made =
      Recompute(Step(Also::kGivesOutWhatTheyMake, 6), 3);
  REQUIRE(made.loops.size() == 1);
  CHECK(made.loops[0].told.freed == 6 * 4 * 4);
  CHECK(made.graph.value(*made.graph.Find("as")).type.shape == Shape{6, 4});
}

}  // namespace
}  // namespace stowage
