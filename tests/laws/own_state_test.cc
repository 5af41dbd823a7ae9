// States that a model writes, update rules of a program's own and further outputs:
// the same to the bit whatever the plan, and what their formulas say.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/layers.h"
#include "planner/fit/memory_optimizations.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/support/run_steps.h"
#include "train/training.h"

namespace stowage {
namespace {

using testing::Differences;
using testing::RunSteps;

constexpr int64_t kWidth = 16;

// A first layer's results are scaled by the inputs' running deviation, whose old
// content backward reads; a hidden state is carried from step to step; the first layer's weights are
// averaged.
Result<Graph> Net(int64_t batch) {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF32, {batch, kWidth});
  const Value y = g.Input("y", DType::kF32, {batch, 4});
  const Value spread = g.State("spread", DType::kF32, {kWidth}, Init::Ones());
  const Value carried = g.State("carried", DType::kF32, {64});
  Value h = Mul(Linear(x, "in", kWidth), spread);
  for (int i = 0; i < 6; ++i) {
    h = Linear(h, StrCat("fc", i), 64);
    if (i == 2) h = Add(h, carried);
    h = Tanh(h);
  }
  const Value guess = Linear(h, "out", 4);
  const Value tenth = Fill(g, 0.1, DType::kF32, {});
  LerpUpdate(spread, Sqrt(ReduceMean(Square(x), {0})), tenth);
  Assign(carried, ReduceMean(h, {0}));
  const Value w = *g.Find("fc0.weight");
  LerpUpdate(g.State("average", DType::kF32, w.shape()), w, tenth);
  g.Output("guess", guess);
  g.Output("loss", ReduceMean(Square(Sub(guess, y))));
  return g.Finish();
}

// Chen et al. 2023, with a momentum of one kind.
UpdateRule Lion() {
  return {.name = "lion",
          .update =
              [](ParamUpdate& u) {
                const Value m = u.State("m");
                const Value mixed =
                    Add(MulScalar(m, 0.9), MulScalar(u.gradient, 0.1));
                const Value change =
                    Add(Sign(mixed), MulScalar(u.param, u.decay));
                u.Set(u.param, Sub(u.param, Mul(change, u.LearningRate())));
                u.Set(m, mixed);
              },
          .learning_rate = 1e-2,
          .decay = 0.1};
}

TrainOptions Options() { return {.optimizer = Lion(), .gradients = {"out.*"}}; }

TEST_CASE("a step that writes its states is the same, planned or not") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (const auto& clip_norm : {std::optional<double>(), std::optional(0.1)}) {
    TrainOptions options = Options();
    options.clip_norm = clip_norm;
    const Graph step = *BuildTrainStep(*Net(12), "loss", options);
    const auto unplanned = RunSteps(step, *cpu, {.steps = 4, .planned = false});
    CHECK(unplanned.contains("grad:out.bias@3"));
    CHECK(unplanned.contains("carried"));
    CHECK(Differences(RunSteps(step, *cpu, {.steps = 4}), unplanned) == "");
    CHECK(Differences(RunSteps(step, *cpu, {.steps = 4, .poison = true}),
                      unplanned) == "");
  }
}

struct Run {
  std::vector<float> losses, guess, gradient, spread, average, w;
};

std::vector<float> ReadAll(Runner& step, std::string_view name) {
  const Graph& graph = step.graph();
  std::vector<float> content(static_cast<size_t>(
      graph.value(*graph.Find(name)).type.shape.num_elements()));
  REQUIRE(step.Read(name, &content).ok());
  return content;
}

Run Train30(Training& training, int64_t batch) {
  std::vector<float> xs, ys;
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t k = 0; k < kWidth; ++k) {
      xs.push_back(2 * std::sin(static_cast<float>(17 * i + 3 * k)));
    }
    for (size_t k = 0; k < 4; ++k) {
      ys.push_back(xs[static_cast<size_t>(kWidth * i) + k] / 4);
    }
  }
  training.Initialize(7);
  Runner& step = training.step();
  Run run;
  for (int64_t i = 1; i <= 30; ++i) {
    REQUIRE(step.Write("x", xs).ok());
    REQUIRE(step.Write("y", ys).ok());
    REQUIRE(step.Write("lr", 1e-3f).ok());
    REQUIRE(step.Write("step", i).ok());
    REQUIRE(step.Step() == StepCode::kOk);
    run.losses.push_back(*step.ReadScalar("loss"));
  }
  run.guess = ReadAll(step, "guess");
  run.gradient = ReadAll(step, "grad:out.weight");
  run.spread = ReadAll(step, "spread");
  run.average = ReadAll(step, "average");
  run.w = ReadAll(step, "fc0.weight");
  return run;
}

void CheckSame(const Run& a, const Run& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.guess == b.guess);
  CHECK(a.gradient == b.gradient);
  CHECK(a.spread == b.spread);
  CHECK(a.average == b.average);
  CHECK(a.w == b.w);
}

TEST_CASE(
    "it trains inside a budget, by every optimization, and no bit changes") {
  constexpr int64_t kBatch = 256;
  const auto cpu = MakeCpuBackend({.threads = 2});
  TrainingSpec spec = {.model = Net,
                       .batch = kBatch,
                       .training = Options(),
                       .optimizations = NoOptimizations()};
  Result<Training> whole = Train(spec, *cpu);
  REQUIRE_MESSAGE(whole.ok(), whole.error().message);
  const Run expected = Train30(*whole, kBatch);
  CHECK(expected.losses.back() < 0.7f * expected.losses.front());
  const Bytes arena = whole->plan().arena_bytes();

  spec.optimizations->recompute = Recompute::kAuto;
  spec.budget = arena * 8 / 10;
  Result<Training> again = Train(spec, *cpu);
  REQUIRE_MESSAGE(again.ok(), again.error().message);
  CHECK(again->plan().step.price.recomputed_nodes > 0);
  CheckSame(Train30(*again, kBatch), expected);

  spec.optimizations = NoOptimizations();
  spec.optimizations->offload = OffloadChoice::kAuto;
  Result<Training> moved = Train(spec, *cpu);
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  CHECK(moved->plan().step.price.host.values > 0);
  CheckSame(Train30(*moved, kBatch), expected);
}

TEST_CASE("in micro-batches a state is written by each of them, in order") {
  constexpr int64_t kBatch = 256;
  const auto cpu = MakeCpuBackend({.threads = 2});
  TrainingSpec spec = {.model = Net,
                       .batch = kBatch,
                       .training = Options(),
                       .optimizations = NoOptimizations()};
  spec.training.allow_batch_change = true;
  spec.optimizations->micro_batches = {4};
  Result<Training> micro_batches = Train(spec, *cpu);
  REQUIRE_MESSAGE(micro_batches.ok(), micro_batches.error().message);
  CHECK(micro_batches->plan().step.price.micro_batches == 4);
  const Run expected = Train30(*micro_batches, kBatch);
  CHECK(expected.losses.back() < 0.7f * expected.losses.front());
  CHECK(expected.guess.size() == kBatch * 4);
  // 120 micro-batches of one spread, from 1 towards it by a tenth each; every piece of a
  // sine has a spread near 2 / sqrt(2).
  for (const float s : expected.spread) {
    CHECK(s == doctest::Approx(std::sqrt(2.0)).epsilon(0.05));
  }

  spec.optimizations->recompute = Recompute::kAuto;
  spec.budget = micro_batches->plan().arena_bytes() * 999 / 1000;
  Result<Training> tight = Train(spec, *cpu);
  REQUIRE_MESSAGE(tight.ok(), tight.error().message);
  CHECK(tight->plan().step.price.micro_batches == 4);
  CheckSame(Train30(*tight, kBatch), expected);
}

// One step of a linear model by hand, in double precision.
TEST_CASE("an update rule does what it says, with a group's rate and decay") {
  GraphBuilder g("linear");
  const Value x = g.Input("x", DType::kF64, {3});
  const Value w = g.Param("w", DType::kF64, {3}, Init::Ones());
  g.Output("loss", ReduceSum(Mul(w, Mul(w, x))));
  const Graph forward = *g.Finish();
  const Graph step = *BuildTrainStep(
      forward, "loss",
      {.optimizer = Lion(),
       .groups = {{.pattern = "w", .decay = 0.5, .lr_scale = 2}}});
  const auto cpu = MakeCpuBackend({.threads = 1});
  Session session = *Session::Create(
      {{"step", step, *PlanMemory(step, {.device = cpu->Needs()})}}, *cpu);
  session.Initialize(1);
  Runner& runner = session.front();
  const std::vector<double> xs = {1, -2, 0.5};
  std::vector<double> ws(3, 1.0), ms(3, 0.0), got(3);
  for (int64_t i = 1; i <= 5; ++i) {
    REQUIRE(runner.Write("x", xs).ok());
    REQUIRE(runner.Write("lr", 0.125f).ok());
    REQUIRE(runner.Write("step", i).ok());
    REQUIRE(runner.Step() == StepCode::kOk);
    for (size_t k = 0; k < 3; ++k) {
      ms[k] = 0.9 * ms[k] + 0.1 * 2 * ws[k] * xs[k];
      const double sign = ms[k] > 0 ? 1 : -1;
      ws[k] -= 0.25 * (sign + 0.5 * ws[k]);
    }
  }
  REQUIRE(runner.Read("w", &got).ok());
  for (size_t k = 0; k < 3; ++k) CHECK(got[k] == doctest::Approx(ws[k]));
  REQUIRE(runner.Read("w.m", &got).ok());
  for (size_t k = 0; k < 3; ++k) CHECK(got[k] == doctest::Approx(ms[k]));
}

TEST_CASE("a rule that writes nothing, or has no function, is refused") {
  const auto error = [](const UpdateRule& rule) {
    const auto step = BuildTrainStep(*Net(2), "loss", {.optimizer = rule});
    REQUIRE(!step.ok());
    return step.error().message;
  };
  CHECK(error({.name = "lazy", .update = [](ParamUpdate&) {}}) ==
        "[optimizer] update rule \"lazy\" does not write the param \"" +
            std::string("out.bias") +
            "\"; call Set(update.param, ...), or freeze the param by a group");
  CHECK(error({.name = "empty"}) ==
        "[optimizer] update rule \"empty\" has no function");
  CHECK(error({.update = [](ParamUpdate&) {}}) ==
        "[optimizer] an update rule has no name");
  CHECK(error({.name = "backwards",
               .update = [](ParamUpdate&) {},
               .learning_rate = -1}) ==
        "[optimizer] the learning rate of update rule \"backwards\" is -1; "
        "expected a finite number of at least 0");
}

}  // namespace
}  // namespace stowage
