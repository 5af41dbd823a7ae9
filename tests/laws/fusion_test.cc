// Law: fusing ops, in a training step or in a program without backward pass, changes no bit of
// an output, param or state on the CPU, and makes no arena larger, on any device.

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "gpu/gpu.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/fit/fuse/fuse.h"
#include "planner/validate_plan.h"
#include "tests/support/instances.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using fit::Fuse;
using fit::Fused;
using testing::Differences;
using testing::Instances;
using testing::MakeRandomControlFlow;
using testing::MakeRandomModel;
using testing::MakeRandomStep;
using testing::RunOptions;
using testing::RunSteps;
using testing::Visible;
using testing::WriteRandomInputs;

PlannedGraph MustPlan(const Graph& graph, const PlanOptions& options) {
  Result<PlannedGraph> program = PlanProgram(graph, options);
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  return *std::move(program);
}

// What graphs of a text read: caches that are cleared, in which a text goes on.
void WriteInputs(Runner& runner, uint64_t seed, int64_t step) {
  const Graph& graph = runner.graph();
  if (step == 1 && !graph.Leaves(Role::kCache).empty()) {
    REQUIRE(runner.ClearCaches().ok());
  }
  WriteRandomInputs(runner, seed, step);
  if (!graph.Find("position")) return;
  const auto tokens = graph.value(*graph.Find("tokens")).type.shape[1];
  REQUIRE(
      runner.Write("position", static_cast<int32_t>((step - 1) * tokens)).ok());
}

// How many nodes fewer there are, of a graph that gives the same bits both ways.
int FewerNodes(const Graph& graph, Backend& cpu, uint64_t seed) {
  const PlannedGraph program = MustPlan(graph, {.device = cpu.Needs()});
  const RunOptions run = {
      .steps = 2, .seed = seed, .write_inputs = [=](Runner& runner, int64_t i) {
        WriteInputs(runner, seed, i);
      }};
  auto session = Session::Create({{"run", program.graph, program.plan}}, cpu,
                                 {.poison = true});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  const Visible fused = RunSteps(*session, run);
  CHECK(Differences(fused, RunSteps(graph, cpu, run)) == "");
  return graph.num_nodes() - program.graph.num_nodes();
}

TEST_CASE("random graphs give the same bits, fused and not") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  int fewer = 0, with_bodies = 0;
  for (uint64_t seed = 0; seed < Instances(150u); ++seed) {
    INFO("seed ", seed);
    fewer += FewerNodes(MakeRandomModel(seed), *cpu, seed);
    with_bodies += FewerNodes(MakeRandomControlFlow(seed), *cpu, seed);
  }
  CHECK(fewer > Instances(60));
  CHECK(with_bodies > Instances(20));
}

TEST_CASE("models give the same bits, fused and not") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  // What is fused of each, at least.
  for (const auto& each :
       {std::pair("mlp", 2), std::pair("cnn-small", 1),
        std::pair("resnet18", 1), std::pair("vit-tiny", 20),
        std::pair("lstm-char", 1), std::pair("llama-nano", 4),
        std::pair("gpt-nano", 15)}) {
    const char* const name = each.first;
    const int fewest = each.second;
    CAPTURE(name);
    const ModelInfo info = *FindModel(name);
    const bool reads_text = info.data == ModelData::kText;
    ModelOptions options{.batch = 2};
    if (!reads_text && info.images.channels == 3) {
      options.images = ImageShape{3, 32, 32, 10};
    }
    std::vector<std::pair<ModelPurpose, ModelOptions>> graphs = {
        {ModelPurpose::kEvaluate, options}};
    if (reads_text) {
      for (auto& [purpose, of_text] : graphs) of_text.seq = 24;
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        graphs.push_back(
            {ModelPurpose::kEvaluate, {.batch = 2, .seq = 9, .dtype = dtype}});
        for (const int64_t tokens : {1, 16}) {
          graphs.push_back(
              {ModelPurpose::kGenerate,
               {.batch = 1, .seq = tokens, .dtype = dtype, .cache = 48}});
        }
      }
    }
    for (const auto& each_graph : graphs) {
      const auto& purpose = each_graph.first;
      const auto& of_graph = each_graph.second;
      CAPTURE(of_graph.seq.value_or(0));
      const auto graph = BuildModel(name, purpose, of_graph);
      REQUIRE_MESSAGE(graph.ok(), graph.error().message);
      CHECK(FewerNodes(*graph, *cpu, 7) >= fewest);
    }
  }
}

// That both ways to plan a graph make the same of it, in no more bytes than its ops
// apart take.
void CheckProgram(const Graph& graph, const PlanOptions& options) {
  const Result<Plan> apart = PlanMemory(graph, options);
  REQUIRE_MESSAGE(apart.ok(), apart.error().message);
  const PlannedGraph program = MustPlan(graph, options);
  CHECK(ValidatePlan(program.graph, program.plan).empty());
  CHECK(program.plan.arena_bytes() <= apart->arena_bytes());
  StepFitter fitter(OfGraph(graph),
                    {.plan = options, .optimizations = NoOptimizations()});
  const Result<FittedStep> step = fitter.Fit(std::nullopt);
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  CHECK(step->plan.fingerprint == program.plan.fingerprint);
  CHECK(step->plan.arena_bytes() == program.plan.arena_bytes());
}

TEST_CASE("no forward program of a model takes more bytes for it") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  for (const ModelInfo& info : Models()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      std::vector<std::pair<ModelPurpose, ModelOptions>> graphs = {
          {ModelPurpose::kEvaluate, {.dtype = dtype}}};
      if (info.data == ModelData::kText) {
        graphs.push_back({ModelPurpose::kGenerate, {.dtype = dtype}});
        for (const int64_t tokens : {1, 32}) {
          graphs.push_back({ModelPurpose::kGenerate,
                            {.batch = 1,
                             .seq = tokens,
                             .dtype = dtype,
                             .cache = info.max_seq}});
        }
      }
      for (const auto& each : graphs) {
        const auto& purpose = each.first;
        const auto& options = each.second;
        const auto graph = BuildModel(info.name, purpose, options);
        REQUIRE_MESSAGE(graph.ok(), graph.error().message);
        for (const bool on_gpu : {false, true}) {
          INFO(info.name, " ", DTypeName(dtype), ", purpose ",
               static_cast<int>(purpose), ", ", options.seq.value_or(0),
               on_gpu ? std::string(" tokens on a GPU")
                      : std::string(" tokens on the CPU"));
          CheckProgram(*graph, {.device = on_gpu ? GpuNeeds() : cpu->Needs()});
        }
      }
    }
  }
}

TEST_CASE("no random graph takes more bytes for it") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (uint64_t seed = 0; seed < Instances(150u); ++seed) {
    INFO("seed ", seed);
    for (const Graph& graph :
         {MakeRandomModel(seed), MakeRandomControlFlow(seed)}) {
      CheckProgram(graph, {.device = cpu->Needs()});
    }
  }
}

// --- Training steps -------------------------------------------------------------------

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
