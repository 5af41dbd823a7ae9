// Law 4: a step performs no heap allocation, and the arena never grows. malloc
// itself is counted, so operator new and Eigen are too.

#include <doctest/doctest.h>

#include <cstdlib>

#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/fit/offload/offload.h"
#include "planner/fit/recompute/iterations.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/support/looped_blocks.h"
#include "tests/support/offload_values_in_bodies.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/random_graph.h"
#include "tools/heap_counter.h"

namespace stowage {
namespace {

using fit::FindOffloadable;
using fit::Offload;

// Allocations in `steps` steps of `graph` after the first, or nothing where
// they cannot be counted.
std::optional<int64_t> AllocationsInSteps(const Graph& graph, int threads,
                                          int steps) {
  const auto cpu = MakeCpuBackend({.threads = threads});
  auto plan = PlanMemory(graph, {.device = cpu->Needs()});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  const Bytes planned = plan->arena_bytes();
  auto session = Session::Create({{"train", graph, *plan}}, *cpu);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  session->Initialize(1);
  Runner& runner = session->front();
  testing::WriteRandomInputs(runner, 1, 1);

  StepCode code = StepCode::kOk;
  const auto before = tools::HeapAllocations();
  for (int i = 0; i < steps && code == StepCode::kOk; ++i) code = runner.Step();
  const auto after = tools::HeapAllocations();
  REQUIRE(code == StepCode::kOk);
  CHECK(session->arena_bytes() == planned);
  if (!before || !after) return std::nullopt;
  return *after - *before;
}

TEST_CASE("the counter counts") {
  const auto before = tools::HeapAllocations();
  if (!before) return;  // a sanitizer has its own malloc
  void* volatile block = std::malloc(100);
  CHECK(*tools::HeapAllocations() == *before + 1);
  std::free(block);
  delete[] new int[10];
  CHECK(*tools::HeapAllocations() >= *before + 1);
}

TEST_CASE("steps of the models allocate nothing") {
  for (const char* name : {"mlp", "gpt-nano"}) {
    const Graph forward = *BuildModel(name, ModelPurpose::kTrain);
    for (const bool clip : {false, true}) {
      TrainOptions options;
      if (clip) options.clip_norm = 1.0;
      const Graph step = *BuildTrainStep(forward, "loss", options);
      for (const int threads : {1, 2}) {
        INFO(std::string(name), " with ", threads, " threads");
        CHECK(AllocationsInSteps(step, threads, 3).value_or(0) == 0);
      }
    }
  }
}

TEST_CASE("steps in bf16 allocate nothing") {
  for (const char* name : {"mlp", "gpt-nano"}) {
    const Graph forward = *BuildModel(name, ModelPurpose::kTrain,
                                      {.batch = 2, .dtype = DType::kBF16});
    const Graph step = *BuildTrainStep(forward, "loss", {.clip_norm = 1.0});
    CHECK(AllocationsInSteps(step, 2, 2).value_or(0) == 0);
  }
}

TEST_CASE("steps in f16 with a loss scale allocate nothing, skipped or not") {
  const Graph forward = *BuildModel("mlp", ModelPurpose::kTrain,
                                    {.batch = 2, .dtype = DType::kF16});
  for (const double init_scale : {1.0, 0x1p60}) {
    const LossScaling scaling = {.init_scale = init_scale};
    const Graph step =
        *BuildTrainStep(forward, "loss", {.loss_scaling = scaling});
    CHECK(AllocationsInSteps(step, 2, 4).value_or(0) == 0);
  }
}

TEST_CASE("steps that keep all they can on the host allocate nothing") {
  for (const char* name : {"mlp", "gpt-nano"}) {
    const Graph forward = *BuildModel(name, ModelPurpose::kTrain);
    const Graph step = *BuildTrainStep(forward, "loss");
    const auto moved = Offload(step, FindOffloadable(step));
    REQUIRE_MESSAGE(moved.ok(), moved.error().message);
    CHECK(AllocationsInSteps(*moved, 2, 2).value_or(0) == 0);
  }
}

TEST_CASE("steps with loops and branches in one another allocate nothing") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    INFO("seed ", seed);
    const Graph graph = testing::MakeRandomControlFlow(seed);
    CHECK(AllocationsInSteps(graph, 2, 2).value_or(0) == 0);
    const Graph offloaded = testing::OffloadValuesInBodies(graph, seed);
    CHECK(AllocationsInSteps(offloaded, 2, 2).value_or(0) == 0);
  }
}

TEST_CASE("steps that make iterations again in segments allocate nothing") {
  size_t loops = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    INFO("seed ", seed);
    const Graph step =
        *BuildTrainStep(testing::MakeRandomControlFlow(seed, /*branches=*/true,
                                                       /*iterations_of=*/6),
                        "loss");
    const fit::RecomputedIterations made =
        *fit::RecomputeIterations(step, {.segment = 3});
    for (const fit::RecomputedLoop& loop : made.loops) {
      loops += loop.segment == 3 ? 1 : 0;
    }
    CHECK(AllocationsInSteps(made.graph, 2, 2).value_or(0) == 0);
  }
  CHECK(loops > 0);
}

TEST_CASE("steps in whose bodies much runs again allocate nothing") {
  using testing::BlocksIn;
  for (const BlocksIn in :
       {BlocksIn::kLoop, BlocksIn::kBranch, BlocksIn::kBranchInLoop}) {
    INFO("in ", static_cast<int>(in));
    const auto step = BuildTrainStep(
        testing::MakeLoopedBlocks({.rows = 128, .in = in}), "loss");
    REQUIRE_MESSAGE(step.ok(), step.error().message);
    const auto cpu = MakeCpuBackend({.threads = 2});
    StepFitter fitter(OfGraph(*step),
                      {.plan = {.device = cpu->Needs()},
                       .optimizations = {.offload = OffloadChoice::kNone}});
    const auto smallest = fitter.SmallestBudget();
    REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
    const auto fitted = fitter.Fit(*smallest);
    REQUIRE_MESSAGE(fitted.ok(), fitted.error().message);
    CHECK(fitted->price.recomputed_nodes > 0);
    CHECK(AllocationsInSteps(fitted->graph, 2, 2).value_or(0) == 0);
  }
}

TEST_CASE(
    "steps of random graphs allocate nothing, and no product is too large") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed ", seed);
    const Graph step = testing::MakeRandomStep(seed);
    CHECK(AllocationsInSteps(step, 2, 2).value_or(0) == 0);
  }
  // Eigen's own product goes to the heap from about 160 x 160 floats up.
  const Graph forward =
      *BuildModel("mlp", ModelPurpose::kTrain, {.batch = 2048});
  CHECK(
      AllocationsInSteps(*BuildTrainStep(forward, "loss"), 2, 1).value_or(0) ==
      0);
}

}  // namespace
}  // namespace stowage
