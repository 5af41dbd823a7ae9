// Law: whether ops are fused shows in no bit, of no output, param or state; and no
// arena is larger for it.

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "nn/models.h"
#include "planner/fit/fuse/fuse.h"
#include "tests/support/instances.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using fit::Fuse;
using fit::Fused;
using testing::Differences;
using testing::Instances;
using testing::MakeRandomStep;
using testing::RunSteps;

Fused MustFuse(const Graph& graph, const Backend& cpu) {
  const PlanOptions options = {.device = cpu.Needs()};
  const Result<Plan> plan = PlanMemory(graph, options);
  REQUIRE(plan.ok());
  Result<Fused> fused = Fuse(graph, *plan, options);
  REQUIRE_MESSAGE(fused.ok(), fused.error().message);
  CHECK(fused->plan.arena_bytes() <= plan->arena_bytes());
  return *std::move(fused);
}

TEST_CASE("200 random steps give the same bits, fused and not") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  int fewer = 0;
  for (uint64_t seed = 0; seed < Instances(200u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
    const Fused fused = MustFuse(step, *cpu);
    fewer += step.num_nodes() - fused.graph.num_nodes();
    const auto parts = RunSteps(step, *cpu, {.steps = 2, .seed = seed});
    const auto run =
        RunSteps(fused.graph, *cpu, {.steps = 2, .seed = seed, .poison = true});
    CHECK(Differences(run, parts) == "");
  }
  CHECK(fewer > Instances(100));
}

// Of a model whose products have more columns than a strip and longer sums than a
// packed one.
void CheckModel(const char* name, const ModelOptions& options, int fewest) {
  INFO(std::string(name));
  const auto cpu = MakeCpuBackend({.threads = 2});
  const auto forward = BuildModel(name, ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const auto step = BuildTrainStep(*forward, "loss", {.clip_norm = 1.0});
  REQUIRE(step.ok());
  const Fused fused = MustFuse(*step, *cpu);
  CHECK(step->num_nodes() - fused.graph.num_nodes() >= fewest);
  const auto parts = RunSteps(*step, *cpu, {.steps = 2});
  const auto run = RunSteps(fused.graph, *cpu, {.steps = 2, .poison = true});
  CHECK(Differences(run, parts) == "");
}

TEST_CASE("mlp and gpt-nano give the same bits, in f32 and bf16") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CheckModel("mlp", {.batch = 16, .dtype = dtype}, 2);
    CheckModel("gpt-nano", {.batch = 2, .seq = 24, .dtype = dtype}, 20);
  }
}

}  // namespace
}  // namespace stowage
