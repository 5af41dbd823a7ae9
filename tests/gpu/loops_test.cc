// Loops on the GPU's program: their bodies' launches one after the other, in the
// emulator.

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/result.h"
#include "cpu/cpu_backend.h"
#include "gpu/gpu_needs.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "nn/models.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/recompute/iterations.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tests/gpu/fake_device.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/run_steps.h"
#include "train/step_builder.h"

namespace stowage::testing {
namespace {

Graph Finished(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// Two carried values that are swapped, a slice from the back, a sum, a stack, and a
// loop in the loop.
Graph Nested(int64_t iterations) {
  GraphBuilder g("nested");
  const Shape row = {5};
  const Value a = g.Input("a", DType::kF32, row);
  const Value b = g.Input("b", DType::kF32, row);
  const Value xs = g.Input("xs", DType::kF32, {iterations, 5});
  const LoopResults run =
      Loop(g, iterations, {.carried = {a, b}, .sliced = {xs}},
           [&](LoopBody& body) {
             const LoopResults inner =
                 Loop(body.builder(), 3,
                      {.carried = {body.carried(0)}, .whole = {body.sliced(0)}},
                      [](LoopBody& in) {
                        const Value next = Add(in.carried(0), in.whole(0));
                        in.Sum(next);
                        in.Next(0, next);
                      });
             body.Next(0, body.carried(1));
             body.Next(1, inner.carried[0]);
             body.Sum(inner.summed[0]);
             body.Stack(Mul(inner.carried[0], body.sliced(0)));
           },
           {.reverse = true});
  g.Output("a2", run.carried[0]);
  g.Output("b2", run.carried[1]);
  g.Output("sum", run.summed[0]);
  g.Output("all", run.stacked[0]);
  return Finished(g);
}

TEST_CASE("loops in loops give the CPU's bits") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (const int64_t iterations : {1, 2, 5}) {
    CAPTURE(iterations);
    const Graph graph = Nested(iterations);
    const Visible expected = RunSteps(graph, *cpu, {.steps = 2});
    const auto gpu = MakeFakeBackend({.seed = 3}, nullptr);
    for (const bool poison : {false, true}) {  // as one graph, and op by op
      const Visible run = RunSteps(graph, *gpu, {.poison = poison});
      CHECK(Differences(run, expected) == "");
    }
  }
}

// A step of a loop from the back, with a loop in it, that carries, sums and stacks what
// is given out.
Graph NestedStep(int64_t iterations) {
  GraphBuilder g("nested");
  const Value w = g.Param("w", DType::kF32, {5}, Init::Uniform(0.8));
  const Value h = g.Input("h", DType::kF32, {5});
  const Value xs = g.Input("xs", DType::kF32, {iterations, 5});
  const LoopResults run = Loop(
      g, iterations, {.carried = {h}, .sliced = {xs}, .whole = {w}},
      [&](LoopBody& body) {
        const LoopResults inner = Loop(
            body.builder(), 3,
            {.carried = {body.carried(0)},
             .whole = {body.sliced(0), body.whole(0)}},
            [](LoopBody& in) {
              in.Next(0,
                      Tanh(Add(Mul(in.carried(0), in.whole(1)), in.whole(0))));
            });
        body.Next(0, inner.carried[0]);
        body.Sum(Mul(inner.carried[0], body.whole(0)));
        body.Stack(Mul(inner.carried[0], body.sliced(0)));
      },
      {.reverse = true});
  const Value sum = ReduceSum(Add(run.carried[0], run.summed[0]), {0});
  g.Output("loss", g.Name("loss", Add(sum, ReduceSum(run.stacked[0], {0, 1}))));
  g.Output("all", run.stacked[0]);
  const Result<Graph> step = BuildTrainStep(Finished(g), "loss");
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

TEST_CASE(
    "iterations made again in segments give the bits of iterations kept") {
  const Graph step = NestedStep(6);
  const auto gpu = MakeFakeBackend({.seed = 3}, nullptr);
  const Visible expected = RunSteps(step, *gpu, {.steps = 2});
  for (const int64_t segment : {1, 2, 3, 6}) {
    CAPTURE(segment);
    const Result<fit::RecomputedIterations> made =
        fit::RecomputeIterations(step, {.segment = segment});
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    REQUIRE(made->loops.size() == 1);
    CHECK(made->loops[0].segment == segment);
    for (const bool poison : {false, true}) {  // as one graph, and op by op
      const Visible run = RunSteps(made->graph, *gpu, {.poison = poison});
      CHECK(Differences(run, expected) == "");
    }
  }
}

TEST_CASE(
    "a step whose micro-batches a loop runs gives the bits of one without") {
  const StepBuilder build = StepsOf(TinyGpt, 6);
  const auto gpu = MakeFakeBackend({}, nullptr);
  const Result<SampledStep> all = build(3, Sampling::kAll);
  REQUIRE_MESSAGE(all.ok(), all.error().message);
  const Result<SampledStep> one = build(3, Sampling::kOneForAll);
  REQUIRE_MESSAGE(one.ok(), one.error().message);
  REQUIRE(one->loop);
  const Result<Graph> in_loop =
      fit::RepeatMicroBatch(one->graph, *one->loop, /*times=*/3);
  REQUIRE_MESSAGE(in_loop.ok(), in_loop.error().message);
  const Visible expected = RunSteps(all->graph, *gpu, {});
  CHECK(Differences(RunSteps(*in_loop, *gpu, {}), expected) == "");
  CHECK(Differences(RunSteps(*in_loop, *gpu, {.poison = true}), expected) ==
        "");
}

// Between arena and host, those of bodies once for each iteration.
int64_t CopiesOf(const Graph& graph) {
  int64_t copies = 0;
  for (const Node& node : graph.nodes()) {
    copies += BodiesOf(node).empty() && fit::BytesCopied(graph, node) > 0;
    for (const auto& body : BodiesOf(node)) {
      copies += IterationsOf(node) * CopiesOf(*body);
    }
  }
  return copies;
}

TEST_CASE("copies of an iteration run beside its kernels, and end with it") {
  const StepBuilder build = StepsOf(TinyGpt, 6);
  const Result<SampledStep> all = build(3, Sampling::kAll);
  REQUIRE_MESSAGE(all.ok(), all.error().message);
  const Result<SampledStep> one = build(3, Sampling::kOneForAll);
  REQUIRE_MESSAGE(one.ok(), one.error().message);
  REQUIRE(one->loop);
  const auto plain = MakeFakeBackend({}, nullptr);
  const Visible expected = RunSteps(all->graph, *plain, {});
  const Result<Graph> moved =
      fit::Offload(one->graph, fit::FindOffloadable(one->graph));
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  const Result<Graph> in_loop =
      fit::RepeatMicroBatch(*moved, *one->loop, /*times=*/3);
  REQUIRE_MESSAGE(in_loop.ok(), in_loop.error().message);
  // As late as it gets, and as early as in three times the arena.
  const PlanOptions options = {.device = plain->Needs()};
  const Result<Plan> plan = PlanMemory(*in_loop, options);
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  const Result<fit::Prefetched> early = fit::Prefetch(
      *in_loop, *plan, 3 * plan->arena_bytes(),
      [](const Graph& graph) { return fit::CostsOfNodes(graph, {}, 1e6); },
      options);
  REQUIRE_MESSAGE(early.ok(), early.error().message);
  CHECK(early->moved > 10);
  const int64_t copies = CopiesOf(*in_loop);
  CHECK(copies > 3 * 10);
  for (const Graph* graph : {&*in_loop, &early->graph}) {
    for (const bool lazy_compute : {false, true}) {
      for (const bool lazy_copy : {false, true}) {
        CAPTURE(lazy_compute);
        CAPTURE(lazy_copy);
        FakeDevice* device = nullptr;
        const auto gpu = MakeFakeBackend(
            {.lazy_compute = lazy_compute, .lazy_copy = lazy_copy}, &device);
        CHECK(Differences(RunSteps(*graph, *gpu, {}), expected) == "");
        // Where each begins, and where it ends.
        CHECK(device->calls("Record") >= 2 * copies);
      }
    }
    const auto gpu = MakeFakeBackend({}, nullptr);
    CHECK(Differences(RunSteps(*graph, *gpu, {.poison = true}), expected) ==
          "");
  }
}

// Copies in each iteration of a loop, and in a branch, that nothing waits for.
Graph Offloading() {
  GraphBuilder g("g");
  const Value xs = g.Input("xs", DType::kF32, {5, 4});
  const Value flag = Greater(ReduceSum(xs, {0, 1}), ReduceMax(xs, {0, 1}));
  const LoopResults run = Loop(g, 5, {.sliced = {xs}}, [](LoopBody& body) {
    const Value a = Neg(body.sliced(0));
    Offload(a);  // which nothing reloads
    body.Sum(a);
  });
  const auto branch = [](CondBody& body) {
    const Value a = Neg(body.operand(0));
    Offload(a);
    return std::vector{ReduceSum(a, {0})};
  };
  g.Output("sum", run.summed[0]);
  g.Output("y", Cond(g, flag, {xs}, {branch, branch})[0]);
  return Finished(g);
}

TEST_CASE(
    "a copy that nothing waits for ends with its iteration, or its branch") {
  const Graph graph = Offloading();
  const auto cpu = MakeCpuBackend({.threads = 1});
  const Visible expected = RunSteps(graph, *cpu, {.steps = 2});
  const auto gpu = MakeFakeBackend({.lazy_copy = true}, nullptr);
  CHECK(LargestDifference(RunSteps(graph, *gpu, {.steps = 2}), expected) <
        1e-6);
}

TEST_CASE("whatever fails in the capture of copies in iterations is told") {
  const Graph graph = Offloading();
  for (const char* function : {"Record", "Await", "Copy"}) {
    bool fails = true;
    for (int64_t nth = 1; fails; ++nth) {
      CAPTURE(function);
      CAPTURE(nth);
      FakeDevice* fake = nullptr;
      const auto gpu =
          MakeFakeBackend({.branches = FakeBranches::kNone}, &fake);
      const Result<Plan> plan = PlanMemory(graph, {.device = gpu->Needs()});
      REQUIRE_MESSAGE(plan.ok(), plan.error().message);
      fake->Fail(function, nth);
      const auto session = Session::Create({{"p", graph, *plan}}, *gpu);
      fails = !session.ok();
      CHECK((nth > 1 || fails));
      if (!fails) continue;
      CHECK(session.error().code == ErrorCode::kDevice);
      CHECK(session.error().message.find("was told to fail") !=
            std::string::npos);
    }
  }
}

int64_t NodesOf(const Graph& graph) {
  int64_t nodes = 0;
  for (const Node& node : graph.nodes()) {
    ++nodes;
    for (const auto& body : BodiesOf(node)) nodes += NodesOf(*body);
  }
  return nodes;
}

TEST_CASE("gpt2-124m in 64 micro-batches is a program of one, within 1.95 GB") {
  const auto model = [](int64_t batch) {
    return BuildModel("gpt2-124m", ModelPurpose::kTrain,
                      {.batch = batch, .seq = 1024, .dtype = DType::kBF16});
  };
  const StepBuilder build = BuildSteps(model, 64, "loss", {});
  StepFitter fitter(build,
                    {.plan = {.device = GpuNeeds()},
                     .optimizations = {.micro_batches = {64},
                                       .offload = OffloadChoice::kNone}});
  // What micro-batches one after the other took for 1.95 GB, in 68,641 nodes.
  const Result<FittedStep> step = fitter.Fit(1'927'501'312);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(step->price.micro_batches == 64);
  const Result<Graph> whole = BuildTrainStep(*model(1), "loss");
  REQUIRE_MESSAGE(whole.ok(), whole.error().message);
  CHECK(NodesOf(step->graph) <= 2 * whole->num_nodes());
}

}  // namespace
}  // namespace stowage::testing
