// Of how many iterations a segment is: those that need the smallest arena, of all divisors, and
// so that the arena grows as the root of the iterations.

#include "planner/fit/recompute/iteration_pairs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "cpu/cpu_backend.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/fit/recompute/iterations.h"
#include "planner/plan_memory.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

// What is carried has `rows` rows; where the net `has_slices` an iteration adds one of its own to
// each. It adds the tanh of the product with a param as well, or, of several `products`,
// that of the product of the tanh before; or all that of the mean over the rows.
struct Net {
  int64_t iterations = 1;
  int64_t rows = 64;
  int products = 1;
  bool of_mean = false;
  bool has_slices = false;
};

Graph Forward(const Net& net) {
  constexpr int64_t kWidth = 64;
  GraphBuilder g("net");
  const Value h = g.Input("h", DType::kF32, {net.rows, kWidth});
  const Value w = g.Param("w", DType::kF32, {kWidth}, Init::Uniform(0.8));
  LoopOperands operands = {.carried = {h}, .whole = {w}};
  if (net.has_slices) {
    operands.sliced.push_back(g.Param(
        "rows", DType::kF32, {net.iterations, kWidth}, Init::Uniform(0.8)));
  }
  const LoopResults run =
      Loop(g, net.iterations, operands, [&](LoopBody& body) {
        Value carried = body.carried(0);
        if (net.has_slices) carried = Add(carried, body.sliced(0));
        Value a = net.of_mean ? ReduceMean(carried, {0}) : carried;
        for (int i = 0; i < net.products; ++i) {
          a = Tanh(Mul(a, body.whole(0)));
        }
        body.Next(0, Add(carried, a));
      });
  g.Output("loss", g.Name("loss", ReduceMean(run.carried[0])));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  return *forward;
}

Graph StepOf(const Net& net) {
  const Result<Graph> step =
      BuildTrainStep(Forward(net), "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *step;
}

// Of the step whose iterations are made again so many at a time.
struct Planned {
  int64_t segment = 0;
  Bytes arena = 0;
};
Planned Plan(const Graph& step, std::optional<int64_t> segment) {
  const Result<fit::RecomputedIterations> made =
      fit::RecomputeIterations(step, {.segment = segment});
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  REQUIRE(made->loops.size() == 1);
  const auto plan = PlanMemory(made->graph, {});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  return {made->loops[0].segment, plan->arena_bytes()};
}

TEST_CASE("no other segments of equal iterations need a smaller arena") {
  const std::vector<Net> nets = {
      {.iterations = 64},
      {.iterations = 64, .products = 3},
      {.iterations = 100, .products = 2},
      {.iterations = 60, .products = 7},
      {.iterations = 97},                 // a prime
      {.iterations = 4, .products = 12},  // too few
      {.iterations = 1},
      {.iterations = 48, .of_mean = true}  // next to nothing is made
  };
  std::vector<int64_t> chosen;
  for (const Net& net : nets) {
    CAPTURE(net.iterations);
    CAPTURE(net.products);
    const Graph step = StepOf(net);
    std::map<int64_t, Bytes> arenas;
    for (int64_t k = 1; k <= net.iterations; ++k) {
      if (net.iterations % k == 0) arenas[k] = Plan(step, k).arena;
    }
    const Planned best = Plan(step, {});
    CHECK(best.arena == arenas.at(best.segment));
    for (const auto& each : arenas) {
      const int64_t k = each.first;
      const Bytes arena = each.second;
      CAPTURE(k);
      // All iterations in one segment are kept, but made twice.
      if (k == net.iterations) continue;
      // Of several that need so little the fewest.
      CHECK((k < best.segment ? arena > best.arena : arena >= best.arena));
    }
    chosen.push_back(best.segment);
    const auto kept = PlanMemory(step, {});
    REQUIRE_MESSAGE(kept.ok(), kept.error().message);
    if (net.iterations > 1)
      CHECK(kept->arena_bytes() <= arenas.at(net.iterations));
  }
  // iterations / k + (products + 1) k is least of these: each tanh is made, and h stacked. Of
  // the mean next to nothing is made: two segments are best.
  CHECK(chosen == std::vector<int64_t>{4, 4, 5, 3, 1, 1, 1, 24});
}

TEST_CASE("the smallest arena grows as the root of the iterations") {
  std::vector<Bytes> by_iterations, in_segments;
  for (const int64_t iterations : {64, 256, 1024}) {
    const Graph step = StepOf({.iterations = iterations});
    by_iterations.push_back(Plan(step, 1).arena);
    StepFitter fitter(OfGraph(step),
                      {.optimizations = {.recompute = Recompute::kAuto}});
    const Result<Bytes> smallest = fitter.SmallestBudget();
    REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
    in_segments.push_back(*smallest);
  }
  for (const size_t i : {1, 2}) {
    CHECK(by_iterations[i] > 3.7 * by_iterations[i - 1]);
    CHECK(in_segments[i] < 2.05 * in_segments[i - 1]);
  }
  CHECK(in_segments[2] < by_iterations[2] / 10);
}

// How many loops stand in one another.
int DepthOf(const Graph& graph) {
  int depth = 0;
  for (const Node& node : graph.nodes()) {
    for (const auto& body : BodiesOf(node)) {
      depth = std::max(depth, 1 + DepthOf(*body));
    }
  }
  return depth;
}

TEST_CASE("in micro-batches of a batch, segments run alike and are priced") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  constexpr int64_t kIterations = 64;
  const auto forward = [](int64_t batch) {
    return Forward(
        {.iterations = kIterations, .rows = batch, .has_slices = true});
  };
  // Of 60 rows: all at once, 30 and 30, a loop over 20, of 9 and 8.
  for (const int64_t micro_batches : {1, 2, 3, 7}) {
    CAPTURE(micro_batches);
    const StepBuilder build =
        testing::StepsOf(forward, 60, {.optimizer = Sgd{}});
    MemoryOptimizations optimizations = NoOptimizations();
    optimizations.micro_batches = {micro_batches};
    optimizations.recompute = Recompute::kAuto;
    StepFitter fitter(build, {.optimizations = optimizations});
    const Result<Bytes> smallest = fitter.SmallestBudget();
    REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
    const Bytes budget = *smallest + *smallest / 8;  // nothing else runs again
    const Result<FittedStep> step = fitter.Fit(budget);
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    CHECK(DepthOf(step->graph) == (micro_batches == 3 ? 3 : 2));
    CHECK(step->plan.arena_bytes() <= budget);
    // Each iteration once more: two sums, a product, and its tanh.
    CHECK(step->price.recomputed_nodes == micro_batches * kIterations * 4);
    int64_t times = 0;  // two micro-batches are told one by one
    for (const RecomputedNode& loop : step->recomputed) times += loop.times;
    CHECK(times == micro_batches * kIterations);
    CHECK(step->price.extra_cost == doctest::Approx(step->price.extra_flops));
    CHECK(step->cost == doctest::Approx(step->flops));
    CHECK(step->price.least_extra_cost <= step->price.extra_cost);
    const Result<SampledStep> kept = build(micro_batches, Sampling::kAll);
    REQUIRE_MESSAGE(kept.ok(), kept.error().message);
    const testing::Visible expected =
        testing::RunSteps(kept->graph, *cpu, {.planned = false});
    for (const bool poison : {false, true}) {
      const testing::Visible got =
          testing::RunSteps(step->graph, *cpu, {.poison = poison});
      CHECK(testing::Differences(got, expected) == "");
    }
  }
}

TEST_CASE("lstm-char in segments gives the bits of iterations kept") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const Graph step = testing::StepOf("lstm-char", {.batch = 2, .seq = 512});
  const testing::Visible expected = testing::RunSteps(step, *cpu, {});
  for (const int64_t segment : {2, 4}) {  // of 8 iterations of 64 positions
    CAPTURE(segment);
    const Result<fit::RecomputedIterations> made =
        fit::RecomputeIterations(step, {.segment = segment});
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    REQUIRE(made->loops.size() == 1);
    CHECK(made->loops[0].segment == segment);
    for (const bool poison : {false, true}) {
      const testing::Visible got =
          testing::RunSteps(made->graph, *cpu, {.poison = poison});
      CHECK(testing::Differences(got, expected) == "");
    }
  }
  // What is carried is small beside what an iteration makes: one at a time takes least.
  CHECK(Plan(step, {}).segment == 1);
}

TEST_CASE("where single iterations fit a budget, it costs what they do") {
  // Of an iteration by itself the sum that is carried on need not run again.
  const Graph step = StepOf({.iterations = 256});
  StepFitter fitter(OfGraph(step),
                    {.optimizations = {.recompute = Recompute::kAuto}});
  const Bytes by_iterations = Plan(step, 1).arena;
  const Bytes in_segments = Plan(step, {}).arena;
  const Result<FittedStep> larger = fitter.Fit(by_iterations);
  const Result<FittedStep> smaller = fitter.Fit(in_segments);
  REQUIRE_MESSAGE(larger.ok(), larger.error().message);
  REQUIRE_MESSAGE(smaller.ok(), smaller.error().message);
  CHECK(larger->plan.arena_bytes() == by_iterations);
  CHECK(DepthOf(larger->graph) == 1);
  CHECK(smaller->plan.arena_bytes() == in_segments);
  CHECK(DepthOf(smaller->graph) == 2);
  CHECK(larger->price.extra_cost < smaller->price.extra_cost);
}

}  // namespace
}  // namespace stowage
