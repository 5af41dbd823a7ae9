// A recurrent net over 1,024 positions: what its step takes by itself and in a quarter of
// that, and that it computes what one over all positions at once does.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "base/result.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "nn/layers.h"
#include "nn/models.h"
#include "nn/recurrent.h"
#include "planner/fit/memory_optimizations.h"
#include "runtime/session.h"
#include "tests/support/interpret.h"
#include "tests/support/run_steps.h"
#include "train/training.h"

namespace stowage {
namespace {

MemoryOptimizations RecomputeAlone() {
  MemoryOptimizations optimizations = NoOptimizations();
  optimizations.recompute = Recompute::kAuto;
  return optimizations;
}

Result<TrainingPlan> TryPlan(int64_t batch, int64_t seq,
                             std::optional<Bytes> budget,
                             const MemoryOptimizations& optimizations) {
  TrainingSpec spec;
  spec.model = [=](int64_t examples) {
    return BuildModel("lstm-char", ModelPurpose::kTrain,
                      {.batch = examples, .seq = seq});
  };
  spec.batch = batch;
  spec.training.optimizer = AdamW{};
  spec.budget = budget;
  spec.optimizations = optimizations;
  const auto cpu = MakeCpuBackend({.threads = 1});
  auto planner = TrainingPlanner::Make(std::move(spec), cpu->Needs());
  REQUIRE_MESSAGE(planner.ok(), planner.error().message);
  return planner->Plan();
}

TrainingPlan PlanOf(int64_t seq, std::optional<Bytes> budget) {
  auto plan = TryPlan(8, seq, budget, RecomputeAlone());
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  return *std::move(plan);
}

TEST_CASE("lstm-char over 1,024 positions trains in a quarter of its arena") {
  const TrainingPlan whole = PlanOf(1024, {});
  const TrainingPlan quarter = PlanOf(1024, whole.arena_bytes() / 4);
  CHECK(whole.step.price.extra_flops == 0);
  CHECK(quarter.arena_bytes() <= whole.arena_bytes() / 4);
  CHECK(quarter.step.price.extra_percent > 20);
  CHECK(quarter.step.price.extra_percent <= 35);
  // Told as what runs again: the loop, by its iterations.
  REQUIRE(quarter.step.recomputed.size() == 1);
  CHECK(quarter.step.recomputed[0].times == 16);
  CHECK(4 * quarter.step.recomputed[0].freed > whole.arena_bytes());
  const TrainingPlan of_few = PlanOf(16, {});
  for (const TrainingPlan* plan : {&whole, &quarter}) {
    CHECK(plan->step.graph.num_nodes() <= 2 * of_few.step.graph.num_nodes());
  }
  // To the bit, poisoned as well.
  const auto cpu = MakeCpuBackend({.threads = 2});
  const auto run = [&](const TrainingPlan& plan, bool poison) {
    testing::RunOptions options = {.steps = 3, .poison = poison};
    options.write_inputs = [&](Runner& runner, int64_t step) {
      for (const std::string name : {"tokens", "targets"}) {
        std::vector<int32_t> ids;
        for (int64_t i = 0; i < 8 * 1024; ++i) {
          ids.push_back(static_cast<int32_t>((i * i + 7 * step) % 96));
        }
        REQUIRE(runner.Write(name, ids).ok());
      }
      REQUIRE(runner.Write("lr", 0.01f).ok());
      REQUIRE(runner.Write("step", step).ok());
    };
    return testing::RunSteps(plan.step.graph, *cpu, options);
  };
  const testing::Visible expected = run(whole, false);
  CHECK(testing::Differences(run(quarter, false), expected) == "");
  CHECK(testing::Differences(run(quarter, true), expected) == "");
}

TEST_CASE(
    "iterations made again are counted once for each micro-batch, and priced") {
  MemoryOptimizations optimizations = RecomputeAlone();
  optimizations.micro_batches = {5};  // of 7 and 6 examples
  const auto plan = TryPlan(32, 512, Bytes{14'000'000}, optimizations);
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  const FittedStep& step = plan->step;
  CHECK(step.price.recomputed_nodes ==
        5 * 8 * 8);  // micro-batches, iterations, nodes
  REQUIRE(step.recomputed.size() == 1);
  CHECK(step.recomputed[0].times == 5 * 8);
  CHECK(step.recomputed[0].flops == doctest::Approx(step.price.extra_flops));
  // By operations, of which nothing less fits; forward is a third of a step.
  CHECK(step.price.extra_cost == doctest::Approx(step.price.extra_flops));
  CHECK(step.price.least_extra_cost == step.price.extra_cost);
  CHECK(step.price.extra_cost > 0.3 * step.cost);
  CHECK(step.price.extra_cost < 0.35 * step.cost);
}

TEST_CASE("iterations made again in two micro-batches are told once") {
  MemoryOptimizations optimizations = RecomputeAlone();
  optimizations.micro_batches = {2};
  for (const int64_t batch : {7, 8}) {
    CAPTURE(batch);
    const auto whole = TryPlan(batch, 512, {}, optimizations);
    REQUIRE_MESSAGE(whole.ok(), whole.error().message);
    const auto plan =
        TryPlan(batch, 512, whole->arena_bytes() / 2, optimizations);
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    const FittedStep& step = plan->step;
    REQUIRE(step.recomputed.size() == 1);
    CHECK(step.recomputed[0].name == "loop_1");
    CHECK(step.recomputed[0].times == 2 * 8);
    CHECK(step.recomputed[0].flops == doctest::Approx(step.price.extra_flops));
  }
}

TEST_CASE("a loop of which something is always kept keeps its iterations") {
  const Bytes whole = PlanOf(1024, {}).arena_bytes();
  for (const char* const name : {"loop_1", "lstm_1@loop_1"}) {
    CAPTURE(name);
    MemoryOptimizations optimizations = RecomputeAlone();
    optimizations.always_kept = {name};
    const auto fits = TryPlan(8, 1024, whole, optimizations);
    REQUIRE_MESSAGE(fits.ok(), fits.error().message);
    CHECK(fits->step.price.extra_flops == 0);
    const auto refused = TryPlan(8, 1024, whole / 4, optimizations);
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
  }
  // What there is when iterations are made again is told where nothing may run again.
  const auto refused = TryPlan(8, 1024, whole / 4, NoOptimizations());
  REQUIRE(!refused.ok());
  CHECK_MESSAGE(
      refused.error().message.find("or 11.0 MiB (") != std::string::npos,
      refused.error().message);
  CHECK(refused.error().message.ends_with(" bytes) with recompute"));
}

TEST_CASE("segments give the loss and gradients of all positions at once") {
  const TextLstmConfig config{.name = "tiny",
                              .layers = 2,
                              .width = 3,
                              .hidden = 2,
                              .vocabulary = 5,
                              .max_seq = kMinInSegments};
  const int64_t batch = 2, seq = kMinInSegments;
  const Result<Graph> segments =
      BuildTextLstm(config, ModelPurpose::kTrain,
                    {.batch = batch, .seq = seq, .dtype = DType::kF64});
  REQUIRE_MESSAGE(segments.ok(), segments.error().message);
  GraphBuilder g("at once");
  const Value tokens = g.Input("tokens", DType::kI32, {batch, seq});
  const Value targets = g.Input("targets", DType::kI32, {batch, seq});
  const Value table = g.Param("embedding.weight", DType::kF64, {5, 3});
  const Value y = Lstm(Gather(table, tokens), "lstm", 2, {.layers = 2}).y;
  const Value loss = CrossEntropy(Linear(y, "head", 5), targets);
  g.Output("loss", g.Name("loss", loss));
  const Result<Graph> at_once = g.Finish();
  REQUIRE_MESSAGE(at_once.ok(), at_once.error().message);

  Tensors leaves = {{"lr", {1.0}}, {"step", {1.0}}};
  for (const ValueId id : at_once->Leaves(Role::kParam)) {
    const ValueInfo& info = at_once->value(id);
    for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
      leaves[info.name].push_back(
          std::sin(static_cast<double>(7 * i) + static_cast<double>(id)));
    }
  }
  for (int64_t i = 0; i < batch * seq; ++i) {
    leaves["tokens"].push_back(static_cast<double>((i * i) % 5));
    leaves["targets"].push_back(static_cast<double>((i * i + 3 * i) % 5));
  }
  // A step of plain descent with lr 1 moves each param by its gradient.
  const auto after = [&](const Graph& forward) {
    const Result<Graph> step =
        BuildTrainStep(forward, "loss", {.optimizer = Sgd{}});
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    Tensors moved = leaves;
    const Tensors values = Interpret(*step, leaves);
    CarryOver(*step, values, &moved);
    moved["loss"] = values.at("loss");
    return moved;
  };
  const Tensors expected = after(*at_once), got = after(*segments);
  for (const auto& each : expected) {
    const auto& name = each.first;
    const auto& values = each.second;
    CAPTURE(name);
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK(got.at(name).at(i) == doctest::Approx(values[i]).epsilon(1e-10));
    }
  }
}

}  // namespace
}  // namespace stowage
