// What runs again inside the bodies of loops and branches: what that frees, what it costs,
// and what is told of it. That no bit changes is a law: tests/laws/optimizations_in_bodies_test.cc.

#include "planner/fit/recompute/bodies.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "planner/fit/cost.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/recompute/iterations.h"
#include "planner/fit/recompute/recompute.h"
#include "planner/plan_memory.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/looped_blocks.h"

namespace stowage::fit {
namespace {

using testing::BlocksIn;
using testing::LoopedBlocks;
using testing::MakeLoopedBlocks;
using testing::StepsOf;

Graph StepOfBlocks(const LoopedBlocks& options = {}) {
  Result<Graph> step =
      BuildTrainStep(MakeLoopedBlocks(options), "loss", {.optimizer = Sgd{}});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

Graph WithIterationsAgain(const Graph& step) {
  Result<RecomputedIterations> made = RecomputeIterations(step, {});
  REQUIRE_MESSAGE(made.ok(), made.error().message);
  return std::move(made->graph);
}

StepFitter FitterOf(const Graph& step, std::vector<std::string> kept = {}) {
  return StepFitter(OfGraph(step),
                    {.optimizations = {.always_kept = std::move(kept),
                                       .offload = OffloadChoice::kNone}});
}

FittedStep Fit(StepFitter& fitter, std::optional<Bytes> budget) {
  Result<FittedStep> fitted = fitter.Fit(budget);
  REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
  return *std::move(fitted);
}

Bytes SmallestOf(StepFitter& fitter) {
  const Result<Bytes> smallest = fitter.SmallestBudget();
  REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
  return *smallest;
}

// The smallest arena where what runs again are nodes of the graph.
Bytes SmallestAround(const Graph& graph) {
  RecomputeChoices choices(graph, {}, {});
  const auto all = choices.All();
  REQUIRE_MESSAGE(all.ok(), all.error().message);
  Bytes least = choices.PlanAsGiven()->arena_bytes();
  for (const RecomputeChoice& choice : *all) {
    least = std::min(least, choices.Make(choice.script)->plan.arena_bytes());
  }
  return least;
}

// How many nodes run in a step, views aside; of a branch, the most.
int64_t RunsOf(const Graph& graph) {
  int64_t runs = 0;
  for (const Node& node : graph.nodes()) {
    int64_t inside = 0;
    for (const auto& body : BodiesOf(node)) {
      inside = std::max(inside, RunsOf(*body));
    }
    runs += IterationsOf(node) * inside + (GetOpDef(node.op).is_view() ? 0 : 1);
  }
  return runs;
}

// Whether a value that is called so runs again in a body.
bool RunsAgain(const Graph& graph, const std::string& name) {
  return IsMadeInBody(graph, StrCat(name, "~recomputed"));
}

bool IsToldInBodies(const FittedStep& step) {
  return std::ranges::any_of(
      step.recomputed, [](const RecomputedNode& recomputed) {
        return recomputed.name.find('@') != std::string::npos;
      });
}

TEST_CASE(
    "a step fits a quarter less than where whole iterations alone run again") {
  const Graph step = StepOfBlocks();
  const Bytes by_iterations = SmallestAround(WithIterationsAgain(step));
  StepFitter fitter = FitterOf(step);
  const Bytes smallest = SmallestOf(fitter);
  // Of six values of 256 KiB that wait in an iteration, three do.
  CHECK(smallest <= by_iterations - 3 * (256 << 10));
  CHECK(4 * smallest <= 3 * by_iterations);
  const FittedStep fitted = Fit(fitter, smallest);
  CHECK(fitted.plan.arena_bytes() == smallest);
  CHECK(IsToldInBodies(fitted));
  const Result<FittedStep> refused = fitter.Fit(smallest - 1);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
}

TEST_CASE("bodies in bodies are lowered, as far as bodies are") {
  const Bytes alone =
      PlanMemory(StepOfBlocks({.in = BlocksIn::kBranch}))->arena_bytes();
  StepFitter of_branch = FitterOf(StepOfBlocks({.in = BlocksIn::kBranch}));
  const Bytes freed = alone - SmallestOf(of_branch);
  CHECK(freed >= 3 * (256 << 10));
  // The gradient of the branch is in the body of the loop that goes back.
  const Graph nested = StepOfBlocks({.in = BlocksIn::kBranchInLoop});
  StepFitter fitter = FitterOf(nested);
  CHECK(SmallestOf(fitter) <=
        std::min(SmallestAround(nested),
                 SmallestAround(WithIterationsAgain(nested))) -
            freed / 2);
}

TEST_CASE("every budget between is met, and a larger one costs no more") {
  const Graph step = StepOfBlocks();
  StepFitter fitter = FitterOf(step);
  const Bytes least = SmallestOf(fitter);
  const Bytes by_iterations =
      PlanMemory(WithIterationsAgain(step))->arena_bytes();
  double cost = 0;
  int different = 0;
  for (int k = 8; k >= 0; --k) {
    const Bytes budget = least + (by_iterations - least) * k / 8;
    CAPTURE(budget);
    const FittedStep fitted = Fit(fitter, budget);
    CHECK(fitted.plan.arena_bytes() <= budget);
    CHECK(fitted.total_cost() >= cost);
    different += fitted.total_cost() > cost ? 1 : 0;
    cost = fitted.total_cost();
    CHECK(fitted.price.least_extra_cost <= fitted.price.extra_cost);
  }
  CHECK(different >= 4);
}

TEST_CASE("what is told to run again in bodies is what more the step runs") {
  for (const BlocksIn in :
       {BlocksIn::kLoop, BlocksIn::kBranch, BlocksIn::kBranchInLoop}) {
    CAPTURE(static_cast<int>(in));
    const Graph step = StepOfBlocks({.in = in});
    StepFitter fitter = FitterOf(step);
    const FittedStep fitted = Fit(fitter, SmallestOf(fitter));
    REQUIRE(IsToldInBodies(fitted));
    const double more = GraphFlops(fitted.graph) - GraphFlops(step);
    CHECK(fitted.price.extra_flops == doctest::Approx(more));
    CHECK(fitted.price.extra_cost == doctest::Approx(more));
    const int64_t more_runs = RunsOf(fitted.graph) - RunsOf(step);
    if (in == BlocksIn::kBranchInLoop) {
      // A branch that runs again in an iteration counts as one node, with all in its body.
      CHECK(fitted.price.recomputed_nodes > 0);
      CHECK(fitted.price.recomputed_nodes < more_runs);
    } else {
      CHECK(fitted.price.recomputed_nodes == more_runs);
    }
    double told = 0;
    for (const RecomputedNode& recomputed : fitted.recomputed)
      told += recomputed.flops;
    CHECK(told == doctest::Approx(more));
  }
}

TEST_CASE("what runs again in the micro-batches of a batch is counted in all") {
  const LoopedBlocks options = {.rows = 4096};
  for (const int64_t micro_batches : {2, 4}) {
    CAPTURE(micro_batches);
    const auto model = [&](int64_t rows) {
      LoopedBlocks of = options;
      of.rows = rows;
      return MakeLoopedBlocks(of);
    };
    StepFitter fitter(StepsOf(model, options.rows, {.optimizer = Sgd{}}),
                      {.optimizations = {.micro_batches = {micro_batches},
                                         .offload = OffloadChoice::kNone}});
    const FittedStep whole = Fit(fitter, {});
    const FittedStep fitted = Fit(fitter, SmallestOf(fitter));
    CHECK(fitted.price.micro_batches == micro_batches);
    REQUIRE(IsToldInBodies(fitted));
    const double more = GraphFlops(fitted.graph) - GraphFlops(whole.graph);
    CHECK(fitted.price.extra_flops == doctest::Approx(more));
    for (const RecomputedNode& recomputed : fitted.recomputed) {
      if (recomputed.name.find('@') == std::string::npos) continue;
      CHECK(recomputed.times % options.blocks == 0);
    }
  }
}

TEST_CASE("measured costs of what runs again in bodies are told as well") {
  const Graph step = StepOfBlocks();
  // A node costs one, and what is in its bodies, for each iteration.
  const std::function<double(const Node&)> of_node = [&](const Node& node) {
    double most = GetOpDef(node.op).is_view() ? 0 : 1;
    for (const auto& body : BodiesOf(node)) {
      double inside = 0;
      for (const Node& each : body->nodes()) inside += of_node(each);
      most = static_cast<double>(IterationsOf(node)) * inside;
    }
    return most;
  };
  const CostFn cost = [&](const Graph& graph) {
    std::vector<double> costs;
    for (const Node& node : graph.nodes()) costs.push_back(of_node(node));
    return costs;
  };
  const Graph recomputed = WithIterationsAgain(step);
  const auto levels = FindBodyLevels(recomputed, {.cost = cost});
  REQUIRE_MESSAGE(levels.ok(), levels.error().message);
  REQUIRE(!levels->empty());
  for (const BodyLevel& level : *levels) {
    const auto lowered = LowerBodies(recomputed, level, cost);
    REQUIRE_MESSAGE(lowered.ok(), lowered.error().message);
    REQUIRE(lowered->nodes.size() == 1);
    CHECK(lowered->nodes[0].extra_cost ==
          RunsOf(lowered->graph) - RunsOf(recomputed));
    CHECK(lowered->nodes[0].nodes_again ==
          RunsOf(lowered->graph) - RunsOf(recomputed));
  }
}

TEST_CASE("levels fall in arena, and leave names and places as they are") {
  const Graph step = WithIterationsAgain(StepOfBlocks());
  const auto levels = FindBodyLevels(step, {});
  REQUIRE_MESSAGE(levels.ok(), levels.error().message);
  REQUIRE(levels->size() >= 2);
  CHECK(levels->size() <= kMaxBodyLevels);
  Bytes arena = PlanMemory(step)->arena_bytes();
  double cost = 0;
  for (const BodyLevel& level : *levels) {
    const auto lowered = LowerBodies(step, level, {});
    REQUIRE_MESSAGE(lowered.ok(), lowered.error().message);
    const Bytes next = PlanMemory(lowered->graph)->arena_bytes();
    CHECK(next < arena);
    arena = next;
    REQUIRE(lowered->nodes.size() == 1);
    CHECK(lowered->nodes[0].extra_cost > cost);
    cost = lowered->nodes[0].extra_cost;
    REQUIRE(lowered->graph.num_nodes() == step.num_nodes());
    for (ValueId id = 0; id < step.num_values(); ++id) {
      CHECK(lowered->graph.value(id).name == step.value(id).name);
    }
  }
}

TEST_CASE("a body in which nothing waits has no levels, nor has no body") {
  // Of what each iteration makes nothing waits for another pass.
  const auto forward = FindBodyLevels(MakeLoopedBlocks({}), {});
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  CHECK(forward->empty());
  const auto plain = FindBodyLevels(testing::TinyGpt(2), {});
  REQUIRE_MESSAGE(plain.ok(), plain.error().message);
  CHECK(plain->empty());
  const Graph step = StepOfBlocks();
  CHECK(ToText(LowerBodies(step, {}, {})->graph) == ToText(step));
}

// A loop in whose body `a` waits while something wide comes and goes, and is read by what
// is of a later phase.
Graph Waiting(bool ranks_meet) {
  GraphBuilder g("waiting");
  const Value x = g.Input("x", DType::kF32, {64, 64});
  const LoopResults run =
      Loop(g, 3, {.carried = {x}, .whole = {x}}, [&](LoopBody& body) {
        const Value a = body.builder().Name("a", Tanh(body.whole(0)));
        const Value b = Mul(a, body.carried(0));
        const Value wide = Concat(std::vector<Value>{b, b}, 0);
        Value sum = ReduceSum(Reshape(wide, {2, 64, 64}), {0});
        if (ranks_meet) sum = AllReduce(sum, 2);
        body.builder().SetOrigin(Phase::kBackward, "a");
        body.Next(0, Mul(sum, a));
      });
  g.Output("y", run.carried[0]);
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

TEST_CASE("bodies in which ranks meet stay as they are") {
  for (const bool meet : {false, true}) {
    const auto levels = FindBodyLevels(Waiting(meet), {});
    REQUIRE_MESSAGE(levels.ok(), levels.error().message);
    CHECK(levels->empty() == meet);
  }
}

TEST_CASE("a value of a body that is always kept runs again nowhere") {
  const Graph step = WithIterationsAgain(StepOfBlocks());
  const auto lowest = [&](std::vector<std::string> kept) {
    const auto levels = FindBodyLevels(step, {.always_kept = std::move(kept)});
    REQUIRE_MESSAGE(levels.ok(), levels.error().message);
    REQUIRE(!levels->empty());
    return LowerBodies(step, levels->back(), {})->graph;
  };
  CHECK(RunsAgain(lowest({}), "a0"));
  CHECK_FALSE(RunsAgain(lowest({"a0"}), "a0"));
  CHECK(RunsAgain(lowest({"a0"}), "a2"));

  // So its iterations do not, either: only then would there be anything to gain.
  StepFitter free = FitterOf(StepOfBlocks());
  StepFitter keeping = FitterOf(StepOfBlocks(), {"a0"});
  const Bytes by_iterations = PlanMemory(step)->arena_bytes();
  CHECK(SmallestOf(free) < by_iterations);
  CHECK(SmallestOf(keeping) > by_iterations);
  CHECK_FALSE(RunsAgain(Fit(keeping, SmallestOf(keeping)).graph, "a0"));
  // What has the name outside of bodies is what is meant.
  StepFitter outside = FitterOf(StepOfBlocks(), {"a5"});
  CHECK(SmallestOf(outside) == SmallestOf(free));
  StepFitter misnamed = FitterOf(StepOfBlocks(), {"a9"});
  CHECK(misnamed.Fit({}).error().code == ErrorCode::kNotFound);
}

}  // namespace
}  // namespace stowage::fit
