// Law 6: what a run writes is what was planned, to the byte. The arena is filled
// with a pattern, and the bytes that a run changes are compared with the slots
// of its plan.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "autodiff/micro_batches.h"
#include "autodiff/train_step.h"
#include "base/bytes.h"
#include "cpu/cpu_backend.h"
#include "nn/models.h"
#include "planner/fit/fit.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "tests/support/instances.h"
#include "tests/support/random_graph.h"

namespace stowage {
namespace {

using fit::FindOffloadable;
using fit::Offload;
using testing::Instances;

constexpr size_t kGuard = 1 << 16;  // bytes beyond the arena, which stay

// Which bytes, of the arena and the guard behind it, three steps of `graph`
// leave other than they were. A byte that is written as it was goes unseen: so
// there are runs over four patterns, for what threads leave in their scratch
// differs from run to run.
std::vector<uint8_t> TouchedBytes(const Graph& graph, const Plan& plan,
                                  Backend& backend) {
  const auto alignment = static_cast<size_t>(plan.alignment);
  const size_t size = static_cast<size_t>(plan.arena_bytes()) + kGuard;
  std::vector<uint8_t> touched(size, 0);
  for (const uint8_t pattern : {0x5A, 0xA5, 0x3C, 0xC3}) {
    std::vector<std::byte> memory(size + alignment, std::byte{pattern});
    void* start = memory.data();
    size_t space = memory.size();
    REQUIRE(std::align(alignment, size, start, space) != nullptr);
    const std::span arena(static_cast<std::byte*>(start), size);
    auto session =
        Session::Create({{"train", graph, plan}}, backend, {.arena = arena});
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    session->Initialize(1);
    for (int64_t step = 1; step <= 3; ++step) {
      testing::WriteRandomInputs(session->front(), 1, step);
      REQUIRE(session->front().Step() == StepCode::kOk);
    }
    for (size_t i = 0; i < size; ++i) {
      touched[i] |= arena[i] != std::byte{pattern};
    }
  }
  return touched;
}

// Every byte of every value is written, nothing is beside the slots, and the
// last byte written is in the last slot of the arena.
void CheckRun(const Graph& graph, const Plan& plan, Backend& backend) {
  const std::vector<uint8_t> touched = TouchedBytes(graph, plan, backend);
  std::vector<uint8_t> of_values(touched.size(), 0);
  std::vector<uint8_t> of_slots(touched.size(), 0);
  for (const PlannedBuffer& buffer : plan.buffers) {
    if (IsOnHost(buffer.region)) continue;
    const auto begin = plan.AddressOf(buffer);
    std::fill_n(of_slots.begin() + begin, buffer.size, 1);
    if (buffer.region == Region::kWorkspace) continue;  // a kernel may use less
    std::fill_n(of_values.begin() + begin, buffer.size, 1);
  }
  int64_t unwritten = 0, outside = 0;
  size_t end = 0;
  for (size_t i = 0; i < touched.size(); ++i) {
    unwritten += of_values[i] && !touched[i];
    outside += touched[i] && !of_slots[i];
    if (touched[i]) end = i + 1;
  }
  CHECK(unwritten == 0);
  CHECK(outside == 0);
  CHECK(AlignUp(static_cast<Bytes>(end), plan.alignment) == plan.arena_bytes());
}

Graph Step(std::string_view model, int64_t batch) {
  ModelOptions options{.batch = batch};
  if (model != "mlp") options.seq = 24;
  return *BuildTrainStep(*BuildModel(model, ModelPurpose::kTrain, options),
                         "loss");
}

Graph StepInMicroBatches(std::string_view model, int64_t batch,
                         int64_t micro_batches) {
  ModelOptions options{.batch = batch};
  if (model != "mlp") options.seq = 24;
  const Graph whole = *BuildModel(model, ModelPurpose::kTrain, options);
  options.batch = batch / micro_batches;
  const Graph micro_batch = *BuildModel(model, ModelPurpose::kTrain, options);
  const std::vector<const Graph*> all(static_cast<size_t>(micro_batches),
                                      &micro_batch);
  return BuildMicroBatchedStep(whole, all, "loss")->graph;
}

TEST_CASE("a run writes all of the planned arena and nothing else") {
  for (const int threads : Instances<int>({2, 1})) {
    const auto cpu = MakeCpuBackend({.threads = threads});
    const PlanOptions options{.device = cpu->Needs()};
    for (const char* model : {"mlp", "gpt-nano"}) {
      INFO(std::string(model), ", ", threads, " threads");
      const Graph whole = Step(model, 4);
      CheckRun(whole, *PlanMemory(whole, options), *cpu);
      const Graph micro_batches = StepInMicroBatches(model, 4, 2);
      CheckRun(micro_batches, *PlanMemory(micro_batches, options), *cpu);
    }
  }
}

TEST_CASE("so does a run that makes values twice") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const PlanOptions options{.device = cpu->Needs()};
  // With batches so large that activations weigh.
  for (const Graph& step :
       Instances<Graph>({Step("mlp", 512), StepInMicroBatches("gpt-nano", 4, 2),
                         Step("gpt-nano", 4)},
                        2)) {
    INFO(step.name());
    StepFitter fitter(
        OfGraph(step),
        {.plan = options, .optimizations = {.offload = OffloadChoice::kNone}});
    const auto smallest = fitter.SmallestBudget();
    REQUIRE_MESSAGE(smallest.ok(), smallest.error().message);
    const auto made = fitter.Fit(*smallest);
    REQUIRE_MESSAGE(made.ok(), made.error().message);
    CHECK(made->price.recomputed_nodes > 0);
    // What runs as one is known last, and may leave less than was searched for.
    CHECK(made->plan.arena_bytes() <= *smallest);
    CheckRun(made->graph, made->plan, *cpu);
  }
}

TEST_CASE("so does a run that keeps what it can on the host") {
  const auto cpu = MakeCpuBackend({.threads = 2});
  const PlanOptions options{.device = cpu->Needs()};
  for (const Graph& step :
       Instances<Graph>({Step("mlp", 64), Step("gpt-nano", 4)})) {
    INFO(step.name());
    const auto moved = Offload(step, FindOffloadable(step));
    REQUIRE_MESSAGE(moved.ok(), moved.error().message);
    CheckRun(*moved, *PlanMemory(*moved, options), *cpu);
  }
}

}  // namespace
}  // namespace stowage
