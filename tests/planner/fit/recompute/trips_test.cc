// Which trips of loops are made again, and what that frees, worked out by hand. That no
// bit changes is a law: tests/laws/control_flow_test.cc.

#include "planner/fit/recompute/trips.h"

#include <doctest/doctest.h>

#include <utility>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"

namespace stowage {
namespace {

enum class Also { kNothing, kWritesWhatTripsRead, kGivesOutWhatTheyMake };

// Five trips of h = a * a for a = tanh(h * w + x).
Graph Step(Also also) {
  GraphBuilder g("net");
  const Value h = g.Input("h", DType::kF32, {4});
  const Value xs = g.Input("xs", DType::kF32, {5, 4});
  const Value scale = g.State("scale", DType::kF32, {4}, Init::Ones());
  const Value w = Mul(g.Param("w", DType::kF32, {4}, Init::Ones()), scale);
  const LoopResults run =
      Loop(g, 5, {.carried = {h}, .sliced = {xs}, .whole = {w, scale}},
           [&](LoopBody& body) {
             const Value in = Mul(body.sliced(0), body.whole(1));
             const Value a = Tanh(Add(Mul(body.carried(0), body.whole(0)), in));
             if (also == Also::kGivesOutWhatTheyMake) body.Stack(a);
             body.Next(0, Mul(a, a));
           });
  if (also == Also::kWritesWhatTripsRead) Assign(scale, Neg(scale));
  if (also == Also::kGivesOutWhatTheyMake) g.Output("as", run.stacked[0]);
  g.Output("loss", g.Name("loss", ReduceSum(run.carried[0], {0})));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Result<Graph> step =
      BuildTrainStep(*forward, "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

fit::RemadeTrips Remake(const Graph& step) {
  Result<fit::RemadeTrips> made = fit::RemakeTrips(step);
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  return *std::move(made);
}

TEST_CASE("a trip is made again from what it carries, and its slices") {
  const Graph step = Step(Also::kNothing);
  const fit::RemadeTrips made = Remake(step);
  REQUIRE(made.loops.size() == 1);
  // Backward reads a, which takes two products, a sum and a tanh; and h, of every trip.
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
  CHECK(Remake(made.graph).loops.empty());
}

TEST_CASE("a trip is kept whose operands are others by then") {
  CHECK(Remake(Step(Also::kWritesWhatTripsRead)).loops.empty());
}

TEST_CASE("what is given out is kept, and so read where it is") {
  CHECK(Remake(Step(Also::kGivesOutWhatTheyMake)).loops.empty());
}

}  // namespace
}  // namespace stowage
