// Law 2: a run in the planned arena is bit-identical to a run in which every
// value has memory of its own. Law 3: nothing reads dead bytes, on the first
// step and on the hundredth.

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "nn/models.h"
#include "tests/support/instances.h"
#include "tests/support/op_cases.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using testing::Differences;
using testing::Instances;
using testing::MakeRandomStep;
using testing::RunOptions;
using testing::RunSteps;

TEST_CASE("400 random training steps are bit-identical planned and unplanned") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (uint64_t seed = 0; seed < Instances(400u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
    const auto unplanned =
        RunSteps(step, *cpu, {.steps = 3, .seed = seed, .planned = false});
    const auto planned = RunSteps(step, *cpu, {.steps = 3, .seed = seed});
    CHECK(Differences(planned, unplanned) == "");
    const auto poisoned =
        RunSteps(step, *cpu, {.steps = 3, .seed = seed, .poison = true});
    CHECK(Differences(poisoned, unplanned) == "");
  }
}

// Writes the leaves of an op row, all of which are inputs, params or states.
void WriteLeaves(Runner& runner, const OpCase& c) {
  const Tensors leaves = CaseLeaves(c);
  for (const LeafSpec& leaf : c.leaves) {
    const auto write = [&]<typename T>(T) {
      std::vector<T> data;
      for (const double x : leaves.at(leaf.name)) {
        if constexpr (std::is_integral_v<T>) {
          data.push_back(static_cast<T>(static_cast<int64_t>(x)));
        } else {
          data.push_back(static_cast<T>(x));
        }
      }
      REQUIRE(runner
                  .WriteBytes(leaf.name, leaf.dtype,
                              std::as_bytes(std::span<const T>(data)))
                  .ok());
    };
    switch (leaf.dtype) {
      case DType::kF32:
        write(float{});
        break;
      case DType::kF64:
        write(double{});
        break;
      case DType::kI16:
        write(int16_t{});
        break;
      case DType::kI32:
        write(int32_t{});
        break;
      case DType::kI64:
        write(int64_t{});
        break;
      case DType::kU8:
      case DType::kBool:
        write(uint8_t{});
        break;
      case DType::kF16:
      case DType::kBF16:  // any bits will do: they are only moved and cast
        write(uint16_t{});
        break;
    }
  }
}

TEST_CASE("every op row is bit-identical planned, poisoned and unplanned") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  for (const DType real : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (const OpCase& c : OpCases(real)) {
      INFO(c.name);
      const Graph graph = BuildCase(c);
      RunOptions options{.steps = 1, .planned = false};
      options.write_inputs = [&](Runner& runner, int64_t) {
        WriteLeaves(runner, c);
      };
      const auto unplanned = RunSteps(graph, *cpu, options);
      options.planned = true;
      CHECK(Differences(RunSteps(graph, *cpu, options), unplanned) == "");
      options.poison = true;
      CHECK(Differences(RunSteps(graph, *cpu, options), unplanned) == "");
    }
  }
}

TEST_CASE(
    "the example models are bit-identical planned, poisoned and unplanned") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  struct Example {
    const char* name;
    DType dtype;
  };
  for (const Example& example :
       {Example{"mlp", DType::kF32}, Example{"gpt-nano", DType::kF32},
        Example{"gpt-nano", DType::kBF16}}) {
    const std::string name = example.name;
    const DType dtype = example.dtype;
    INFO(name, " in ", std::string(DTypeName(dtype)));
    ModelOptions model{.batch = 2, .dtype = dtype};
    if (name != "mlp") model.seq = 24;
    const Graph forward = *BuildModel(name, ModelPurpose::kTrain, model);
    const Graph step = *BuildTrainStep(forward, "loss");
    const auto unplanned = RunSteps(step, *cpu, {.steps = 3, .planned = false});
    CHECK(Differences(RunSteps(step, *cpu, {.steps = 3}), unplanned) == "");
    CHECK(Differences(RunSteps(step, *cpu, {.steps = 3, .poison = true}),
                      unplanned) == "");
  }
}

TEST_CASE("100 poisoned steps end where 100 plain steps end") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (uint64_t seed = 0; seed < Instances(30u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
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
  for (uint64_t seed = 0; seed < Instances(60u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
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
