// Law 2: a run in the planned arena is bit-identical to a run in which every
// value has memory of its own. Law 3: nothing reads dead bytes, on the first
// step and on the hundredth.

#include <doctest/doctest.h>

#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using testing::Differences;
using testing::MakeRandomModel;
using testing::RunOptions;
using testing::RunSteps;

Graph StepOf(uint64_t seed) {
  TrainOptions options;
  if (seed % 3 == 1) options.optimizer = Momentum{};
  if (seed % 3 == 2) options.optimizer = Sgd{};
  if (seed % 4 == 0) options.clip_norm = 0.5;
  auto step = BuildTrainStep(MakeRandomModel(seed), "loss", options);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return std::move(*step);
}

TEST_CASE("400 random training steps are bit-identical planned and unplanned") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed ", seed);
    const Graph step = StepOf(seed);
    const auto unplanned =
        RunSteps(step, *cpu, {.steps = 3, .seed = seed, .planned = false});
    const auto planned = RunSteps(step, *cpu, {.steps = 3, .seed = seed});
    CHECK(Differences(planned, unplanned) == "");
    const auto poisoned =
        RunSteps(step, *cpu, {.steps = 3, .seed = seed, .poison = true});
    CHECK(Differences(poisoned, unplanned) == "");
  }
}

TEST_CASE("100 poisoned steps end where 100 plain steps end") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (uint64_t seed = 0; seed < 30; ++seed) {
    INFO("seed ", seed);
    const Graph step = StepOf(seed);
    const auto plain =
        RunSteps(step, *cpu, {.steps = 100, .seed = seed, .planned = false});
    const auto poisoned =
        RunSteps(step, *cpu, {.steps = 100, .seed = seed, .poison = true});
    CHECK(Differences(poisoned, plain) == "");
  }
}

TEST_CASE("neither threads nor the layout of the arena change a bit") {
  const auto one = MakeCpuBackend({.threads = 1});
  const auto three = MakeCpuBackend({.threads = 3});
  for (uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed ", seed);
    const Graph step = StepOf(seed);
    const auto base = RunSteps(step, *one, {.steps = 2, .seed = seed});
    const auto threaded = RunSteps(step, *three, {.steps = 2, .seed = seed});
    CHECK(Differences(threaded, base) == "");
    const auto spread =
        RunSteps(step, *three, {.steps = 2, .seed = seed, .alignment = 4096});
    CHECK(Differences(spread, base) == "");
  }
}

}  // namespace
}  // namespace stowage
