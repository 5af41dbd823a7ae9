// Law 11 for micro-batches: a batch whose micro-batches a loop runs gives the bits of one whose
// micro-batches stand one after the other in the program, whatever runs again in them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "cpu/cpu_backend.h"
#include "ir/bodies.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "planner/fit/fit.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/fit/micro_batches/micro_batches.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"
#include "runtime/session.h"
#include "tests/planner/fit/steps.h"
#include "tests/support/instances.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using fit::RepeatMicroBatch;
using testing::Differences;
using testing::Instances;
using testing::RandomNet;
using testing::RunSteps;
using testing::StepsOf;
using testing::TinyGpt;
using testing::Visible;

Graph Finished(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

// Outputs of every kind: a mean beside the loss, a sum, and one that is joined.
Graph Classifier(DType dtype, int64_t batch) {
  GraphBuilder g("classifier");
  const Value x = Cast(g.Input("x", DType::kF32, {batch, 6}), dtype);
  const Value y = g.Input("y", DType::kI32, {batch});
  const Value hidden = Tanh(Linear(x, "fc1", 8));
  const Value logits = Linear(hidden, "fc2", 11);
  g.Output("loss", g.Name("loss", CrossEntropy(logits, y)));
  g.Output("norm", ReduceMean(Mul(hidden, hidden)));
  g.Output("total", ReduceSum(hidden));
  g.Output("logits", logits);
  return Finished(g);
}

// There is a loop in it.
Graph Recurrent(int64_t batch) {
  GraphBuilder g("recurrent");
  const Value x = Permute(g.Input("x", DType::kF32, {batch, 5, 3}), {1, 0, 2});
  const Value w = g.Param("w", DType::kF32, {3, 3}, Init::Normal(0.3));
  const Value start = Fill(g, 0.0, DType::kF32, {batch, 3});
  const LoopResults run =
      Loop(g, 5, {.carried = {start}, .sliced = {x}, .whole = {w}},
           [](LoopBody& body) {
             body.Next(0, Tanh(Add(MatMul(body.carried(0), body.whole(0)),
                                   body.sliced(0))));
           });
  const Value last = run.carried[0];
  g.Output("loss", g.Name("loss", ReduceMean(Mul(last, last))));
  return Finished(g);
}

// A masked mean, and by a mean of the inputs beside; both are of the whole batch.
Graph Masked(int64_t batch) {
  GraphBuilder g("masked");
  const Value x = g.Input("x", DType::kF32, {batch, 6});
  const Value weights = Square(g.Input("weights", DType::kF32, {batch}));
  const Value centred =
      Sub(x, BroadcastTo(ReduceMean(x, {0}, true), x.shape()));
  const Value y = Tanh(Linear(Tanh(Linear(centred, "fc1", 9)), "fc2", 5));
  const Value errors = ReduceSum(Square(y), {1});
  g.Output("loss", g.Name("loss", Div(ReduceSum(Mul(errors, weights)),
                                      ReduceSum(weights))));
  return Finished(g);
}

// Examples are compared with each other: gradients are cached.
Graph Contrastive(int64_t batch) {
  GraphBuilder g("contrastive");
  const Value x = g.Input("x", DType::kF32, {batch, 6});
  const Value z = Linear(Tanh(Linear(x, "fc1", 9)), "fc2", 5);
  const Value scale = g.Param("scale", DType::kF32, {}, Init::Ones());
  const Value scores = MatMul(z, Transpose(z));
  const Value logits = Mul(scores, BroadcastTo(scale, scores.shape()));
  g.Output(
      "loss",
      g.Name("loss", CrossEntropy(logits, Iota(g, DType::kI32, 0, 1, batch))));
  g.Output("logits", logits);
  g.Output("z", z);
  return Finished(g);
}

struct Case {
  std::string name;
  std::function<Graph(int64_t)> model;
  TrainOptions options = {};
};

std::vector<Case> Cases() {
  const auto classifier = [](DType dtype) {
    return [dtype](int64_t batch) { return Classifier(dtype, batch); };
  };
  return {
      {"classifier",
       classifier(DType::kF32),
       {.optimizer = AdamW{}, .gradients = {"fc*"}}},
      {"clipped",
       classifier(DType::kF32),
       {.optimizer = Momentum{}, .clip_norm = 0.01}},
      {"scaled",
       classifier(DType::kF32),
       {.optimizer = AdamW{},
        .clip_norm = 0.01,
        .loss_scaling = LossScaling{.growth_interval = 2},
        .gradients = {"fc*"}}},
      {"scaled f16",
       classifier(DType::kF16),
       {.optimizer = Momentum{},
        // Too large for the first step, in all micro-batches together.
        .loss_scaling = LossScaling{.init_scale = 0x1p20}}},
      {"bf16", classifier(DType::kBF16), {}},
      {"gpt", TinyGpt, {}},
      {"recurrent", Recurrent, {}},
      {"masked", Masked, {}},
      {"contrastive", Contrastive, {.clip_norm = 0.1}},
      {"frozen", TinyGpt, {.groups = {{.pattern = "wte", .frozen = true}}}},
  };
}

// With so much of it on the host.
Graph Built(const StepBuilder& build, int64_t micro_batches, Sampling sampling,
            fit::Share share = {}) {
  Result<SampledStep> step = build(micro_batches, sampling);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  if (share != fit::Share{}) {
    Result<Graph> moved = fit::Offload(
        step->graph,
        fit::Select(fit::FindOffloadable(step->graph), share, micro_batches),
        step->begins);
    REQUIRE_MESSAGE(moved.ok(), moved.error().message);
    step->graph = *std::move(moved);
  }
  if (!step->loop) return std::move(step->graph);
  const int64_t times = *std::ranges::max_element(step->counts);
  Result<Graph> graph =
      RepeatMicroBatch(step->graph, *step->loop, times, step->before);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

TEST_CASE(
    "a loop over micro-batches gives the bits of micro-batches one after the "
    "other") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  for (const Case& c : Cases()) {
    CAPTURE(c.name);
    const StepBuilder build = StepsOf(c.model, 12, c.options);
    for (const int64_t micro_batches : {3, 12}) {
      CAPTURE(micro_batches);
      const Graph unrolled = Built(build, micro_batches, Sampling::kAll);
      const Graph in_loop = Built(build, micro_batches, Sampling::kOneForAll);
      CHECK(in_loop.num_nodes() * 2 < unrolled.num_nodes());
      const Visible given = RunSteps(unrolled, *cpu, {.steps = 3});
      for (const bool poison : {false, true}) {
        const Visible run =
            RunSteps(in_loop, *cpu, {.steps = 3, .poison = poison});
        CHECK(Differences(run, given) == "");
      }
      const auto plan_of = [&](const Graph& graph) {
        return PlanMemory(graph, {.device = cpu->Needs()}).value();
      };
      CHECK(plan_of(in_loop).arena_bytes() <= plan_of(unrolled).arena_bytes());
    }
  }
}

// Of what bodies of `graph` put there.
int OffloadedInBodies(const Graph& graph) {
  int values = 0;
  for (const Node& node : graph.nodes()) {
    if (!BodiesOf(node).empty()) values += fit::ValuesOffloaded(node);
  }
  return values;
}

TEST_CASE("values on the host in a loop over micro-batches change no bit") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const fit::Share shares[] = {
      {.halves = 2},
      {.states = 1000, .halves = 2},
      {.states = 1000, .halves = 2, .again = true},
  };
  for (const Case& c : Cases()) {
    CAPTURE(c.name);
    const StepBuilder build = StepsOf(c.model, 12, c.options);
    for (const int64_t micro_batches : {3, 12}) {
      CAPTURE(micro_batches);
      const Visible given = RunSteps(
          Built(build, micro_batches, Sampling::kAll), *cpu, {.steps = 3});
      for (const fit::Share& share :
           std::span(shares).subspan(micro_batches == 3 ? 0 : 2)) {
        CAPTURE(share.states);
        CAPTURE(share.again);
        const Graph unrolled =
            Built(build, micro_batches, Sampling::kAll, share);
        const Graph in_loop =
            Built(build, micro_batches, Sampling::kOneForAll, share);
        CHECK(OffloadedInBodies(in_loop) > 0);
        CHECK(in_loop.num_nodes() * 2 < unrolled.num_nodes());
        for (const bool poison : {false, true}) {
          const Visible run =
              RunSteps(in_loop, *cpu, {.steps = 3, .poison = poison});
          CHECK(Differences(run, given) == "");
        }
        const auto plan_of = [&](const Graph& graph) {
          return PlanMemory(graph, {.device = cpu->Needs()}).value();
        };
        const Plan looped = plan_of(in_loop), plain = plan_of(unrolled);
        // A total that is on the host is reloaded by every iteration.
        if (c.name == "masked") continue;
        CHECK(looped.arena_bytes() <= plain.arena_bytes());
        CHECK(looped.host_bytes() <= plain.host_bytes());
        CHECK(fit::FindHostUse(in_loop).bytes_per_step ==
              fit::FindHostUse(unrolled).bytes_per_step);
      }
    }
  }
}

TEST_CASE(
    "random steps in micro-batches are the same in every budget, by copies "
    "too") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  int in_bodies = 0;
  for (uint64_t seed = 0; seed < Instances(12u); ++seed) {
    INFO("seed ", seed);
    const int64_t micro_batches = seed % 2 == 0 ? 3 : 4;
    const StepBuilder build =
        StepsOf([seed](int64_t batch) { return RandomNet(seed, batch); }, 12,
                {.optimizer = AdamW{}});
    const Visible given = RunSteps(Built(build, micro_batches, Sampling::kAll),
                                   *cpu, {.steps = 2, .seed = seed});
    const Recompute recompute =
        seed % 3 == 0 ? Recompute::kNone : Recompute::kAuto;
    StepFitter fitter(build,
                      {.plan = {.alignment = 64, .device = cpu->Needs()},
                       .optimizations = {.micro_batches = {micro_batches},
                                         .recompute = recompute},
                       .effort = 0.1});
    const Result<std::vector<ParetoPoint>> frontier = fitter.Frontier();
    REQUIRE_MESSAGE(frontier.ok(), frontier.error().message);
    const Result<Bytes> smallest = fitter.SmallestBudget();
    REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
    CHECK_FALSE(fitter.Fit(*smallest - 1).ok());
    std::vector<Bytes> budgets = {*smallest};
    const size_t apart = 1 + frontier->size() / 4;
    for (size_t i = 0; i < frontier->size(); i += apart) {
      // The whole step may take a little more than its sample.
      budgets.push_back(std::max(*smallest, (*frontier)[i].arena + 4096));
    }
    for (const Bytes budget : budgets) {
      CAPTURE(budget);
      const Result<FittedStep> step = fitter.Fit(budget);
      REQUIRE_MESSAGE(step.ok(), step.error().message);
      CHECK(step->plan.arena_bytes() <= budget);
      CHECK(ValidatePlan(step->graph, step->plan).empty());
      CHECK(step->price.host.bytes_per_step ==
            fit::FindHostUse(step->graph).bytes_per_step);
      in_bodies += OffloadedInBodies(step->graph) > 0;
      auto session = Session::Create({{"run", step->graph, step->plan}}, *cpu,
                                     {.poison = true});
      REQUIRE_MESSAGE(session.ok(), session.error().message);
      CHECK(Differences(RunSteps(*session, {.steps = 2, .seed = seed}),
                        given) == "");
    }
  }
  // 6 with the scratch of CPU target v2.
  if (testing::TakesAllInstances()) CHECK(in_bodies > 5);
}

TEST_CASE("what runs again in a loop's body changes no bit") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const StepBuilder build = StepsOf(TinyGpt, 8);
  const Visible given =
      RunSteps(Built(build, 8, Sampling::kAll), *cpu, {.steps = 3});
  StepFitter fitter(build, {.plan = {.device = cpu->Needs()},
                            .optimizations = {.micro_batches = {8}},
                            .effort = 0.1});
  const Result<FittedStep> free = fitter.AsGiven();
  REQUIRE(free.ok());
  const Result<Bytes> smallest = fitter.SmallestBudget();
  REQUIRE(smallest.ok());
  CHECK(*smallest < free->plan.arena_bytes());
  const Bytes most = free->plan.arena_bytes();
  for (const Bytes budget : {*smallest, (*smallest + most) / 2}) {
    const Result<FittedStep> step = fitter.Fit(budget);
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    CHECK(step->plan.arena_bytes() <= budget);
    CHECK(ValidatePlan(step->graph, step->plan).empty());
    CHECK(step->price.extra_flops > 0);
    CHECK(GraphFlops(step->graph) ==
          doctest::Approx(step->flops + step->price.extra_flops));
    auto session =
        Session::Create({{"run", step->graph, step->plan}}, *cpu, {});
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    CHECK(Differences(RunSteps(*session, {.steps = 3}), given) == "");
  }
}

}  // namespace
}  // namespace stowage
