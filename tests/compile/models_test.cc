// Built-in models, trained by their steps in C and by the library.

#include "nn/models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/strings.h"
#include "compile/compile.h"
#include "cpu/cpu_backend.h"
#include "planner/fit/fit.h"
#include "runtime/session.h"
#include "tests/compile/host_library.h"
#include "tests/support/random_graph.h"
#include "train/step_builder.h"
#include "train/train.h"

namespace stowage {
namespace {

using testing::ArenaInC;
using testing::GraphInC;
using testing::HostLibrary;

constexpr uint64_t kSeed = 42;

struct Net {
  std::string name;
  ModelOptions options;
  // Of the arena that the step takes as it is, in percent; 0: the smallest budget.
  int part = 100;
  OffloadChoice offload = OffloadChoice::kAuto;
};

FittedStep StepOf(const Net& net) {
  const ModelInfo info = *FindModel(net.name);
  const int64_t batch = net.options.batch.value_or(info.batch);
  const auto model = [&](int64_t n) {
    ModelOptions options = net.options;
    options.batch = n;
    return BuildModel(net.name, ModelPurpose::kTrain, options);
  };
  const TrainOptions training{
      .optimizer = *ParseOptimizer(info.training.optimizer), .clip_norm = 1.0};
  StepFitter fitter(BuildSteps(model, batch, "loss", training),
                    {.plan = {.alignment = kCAlignment, .device = NeedsOfC()},
                     .optimizations = {.offload = net.offload}});
  Result<FittedStep> step = fitter.AsGiven();
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  if (net.part < 100) {
    step =
        fitter.Fit(net.part == 0 ? *fitter.SmallestBudget()
                                 : step->plan.arena_bytes() * net.part / 100);
    REQUIRE_MESSAGE(step.ok(), step.error().message);
  }
  return *std::move(step);
}

std::vector<std::byte> BytesOf(const Runner& runner, const ValueInfo& value) {
  std::vector<std::byte> bytes(static_cast<size_t>(value.type.bytes()));
  REQUIRE(runner.ReadBytes(value.name, value.type.dtype, bytes).ok());
  return bytes;
}

// Names of params and states that are not the same bytes.
std::string Different(const Runner& runner, const Graph& graph,
                      ArenaInC& arena) {
  std::string names;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : graph.Leaves(role)) {
      const ValueInfo& value = graph.value(id);
      if (value.on_host) continue;  // at no address of the arena
      const std::vector<std::byte> bytes = BytesOf(runner, value);
      if (std::memcmp(bytes.data(), arena.At(value.name), bytes.size()) != 0) {
        names += " " + value.name;
      }
    }
  }
  return names;
}

// The largest relative difference of losses over `steps`, from the same start.
double LossDifference(const Net& net, int steps) {
  const ModelInfo info = *FindModel(net.name);
  const FittedStep step = StepOf(net);
  const auto cpu = MakeCpuBackend({.threads = 2});
  const Result<Plan> plan = PlanMemory(step.graph, {.device = cpu->Needs()});
  REQUIRE(plan.ok());
  auto session = Session::Create({{"train", step.graph, *plan}}, *cpu);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  session->Initialize(kSeed);
  Runner& runner = session->front();

  const GraphInC in_c = GraphInC::Of(step.graph, step.plan, "net");
  const HostLibrary library(net.name, in_c.files, "-O2 -march=native");
  ArenaInC arena(in_c);
  library.Get<void(uint8_t*, uint64_t)>("net_init")(arena.data(), kSeed);
  CHECK(Different(runner, step.graph, arena) == "");

  auto* const run = library.Get<int(uint8_t*)>("net_step");
  double largest = 0;
  for (int i = 1; i <= steps; ++i) {
    testing::WriteRandomInputs(runner, kSeed, i);
    const double lr = info.training.schedule.At(i, info.training.steps);
    REQUIRE(runner.Write("lr", lr).ok());
    for (const ValueId id : step.graph.Leaves(Role::kInput)) {
      const ValueInfo& value = step.graph.value(id);
      const std::vector<std::byte> bytes = BytesOf(runner, value);
      std::memcpy(arena.At(value.name), bytes.data(), bytes.size());
    }
    REQUIRE(runner.Step() == StepCode::kOk);
    REQUIRE(run(arena.data()) == 0);
    const double expected = *runner.ReadScalar("loss");
    const double loss = arena.Read("loss").at(0);
    largest = std::max(largest, std::abs(loss - expected) / std::abs(expected));
  }
  MESSAGE(net.name, ": losses differ by ", largest, " at most, arena ",
          step.plan.arena_bytes(), " bytes, ", step.price.micro_batches,
          " micro-batches, ", step.price.recomputed_nodes, " recomputed nodes");
  return largest;
}

TEST_CASE("losses of 20 steps in C are those of the library") {
  CHECK(LossDifference({"mlp", {.batch = 8}}, 20) < 1e-6);
  CHECK(LossDifference({"cnn-small", {.batch = 4}}, 20) < 1e-6);
  CHECK(LossDifference({"lstm-char", {.batch = 2, .seq = 16}}, 20) < 1e-6);
  CHECK(LossDifference({"gpt-nano", {.batch = 2, .seq = 24}}, 20) < 1e-6);
  CHECK(LossDifference({"llama-nano", {.batch = 2, .seq = 24}}, 20) < 1e-6);
}

TEST_CASE("a step that was fitted into a budget gives the same losses in C") {
  CHECK(LossDifference({"cnn-small", {.batch = 8}, 70}, 5) < 1e-6);
  CHECK(LossDifference({"gpt-nano", {.batch = 4, .seq = 24}, 85}, 5) < 1e-6);
  // Where params lie in the second block, too.
  const Net slow{"mlp", {.batch = 8}, 0, OffloadChoice::kDisk};
  CHECK(StepOf(slow).plan.regions.weights == 0);
  CHECK(LossDifference(slow, 5) < 1e-6);
}

}  // namespace
}  // namespace stowage
