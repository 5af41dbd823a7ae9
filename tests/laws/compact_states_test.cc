// The laws for optimizers whose states have fewer bits than f32: planned, poisoned and
// moved to the host, they are what they are where every value has memory of its own; and
// a checkpoint holds all of them.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizer.h"
#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "runtime/checkpoint.h"
#include "runtime/session.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using fit::FindOffloadable;
using fit::Offload;
using testing::Differences;
using testing::RunSteps;

constexpr const char* kNames[] = {"momentum-bf16", "adamw-bf16", "adamw8bit",
                                  "flash-adamw"};

// One matrix of 4,096 elements, which has moments of eight bits, and a smaller one.
Graph Step(const char* optimizer, DType dtype) {
  GraphBuilder g("model");
  const Value x = Cast(g.Input("x", DType::kF32, {4, 64}), dtype);
  const Value y = g.Input("labels", DType::kI32, {4});
  const Value w1 = g.Param("w1", dtype, {64, 64}, Init::Normal(0.1));
  const Value w2 = g.Param("w2", dtype, {64, 7}, Init::Normal(0.1));
  g.Output("loss", CrossEntropy(MatMul(Tanh(MatMul(x, w1)), w2), y));
  const Graph model = *g.Finish();
  auto step =
      BuildTrainStep(model, "loss", {.optimizer = *ParseOptimizer(optimizer)});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return *std::move(step);
}

TEST_CASE("planned, poisoned and on the host, compact states keep every bit") {
  const auto one = MakeCpuBackend({.threads = 1});
  const auto three = MakeCpuBackend({.threads = 3});
  for (const char* name : kNames) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(name);
      CAPTURE(DTypeName(dtype));
      const Graph step = Step(name, dtype);
      const auto unplanned =
          RunSteps(step, *one, {.steps = 4, .seed = 7, .planned = false});
      for (Backend* backend : {one.get(), three.get()}) {
        CHECK(Differences(RunSteps(step, *backend, {.steps = 4, .seed = 7}),
                          unplanned) == "");
        const auto poisoned =
            RunSteps(step, *backend, {.steps = 4, .seed = 7, .poison = true});
        CHECK(Differences(poisoned, unplanned) == "");
      }
      const auto moved = Offload(step, FindOffloadable(step));
      REQUIRE_MESSAGE(moved.ok(), moved.error().message);
      CHECK(moved->Leaves(Role::kState).size() ==
            step.Leaves(Role::kState).size());
      const auto on_host =
          RunSteps(*moved, *one, {.steps = 4, .seed = 7, .poison = true});
      CHECK(Differences(on_host, unplanned) == "");
    }
  }
}

class Run {
 public:
  explicit Run(const Graph& step)
      : cpu_(MakeCpuBackend({.threads = 1})), session_(Open(step, *cpu_)) {
    session_.Initialize(5);
  }
  void Take(int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; ++step) {
      testing::WriteRandomInputs(runner(), 1, step);
      REQUIRE(runner().Step() == StepCode::kOk);
    }
  }
  std::vector<std::byte> Bytes(const std::string& name) {
    const TensorType type =
        runner().graph().value(*runner().graph().Find(name)).type;
    std::vector<std::byte> bytes(static_cast<size_t>(type.bytes()));
    REQUIRE(runner().ReadBytes(name, type.dtype, bytes).ok());
    return bytes;
  }
  Runner& runner() { return session_.front(); }

 private:
  static Session Open(const Graph& step, Backend& backend) {
    auto plan = PlanMemory(step, {.device = backend.Needs()});
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    auto session = Session::Create({{"train", step, *plan}}, backend);
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    return *std::move(session);
  }

  std::unique_ptr<Backend> cpu_;
  Session session_;
};

TEST_CASE("a resumed run has the compact states of one that went on") {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path =
      StrCat(folder == nullptr ? "/tmp" : folder, "/compact.safetensors");
  for (const char* name : kNames) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      CAPTURE(name);
      CAPTURE(DTypeName(dtype));
      const Graph step = Step(name, dtype);
      Run whole(step);
      whole.Take(1, 6);
      Run first(step);
      first.Take(1, 3);
      REQUIRE(SaveCheckpoint(first.runner(), path, 3).ok());
      Run second(step);
      REQUIRE(LoadCheckpoint(second.runner(), path).ok());
      second.Take(4, 6);
      for (const Role role : {Role::kParam, Role::kState}) {
        for (const ValueId id : step.Leaves(role)) {
          const std::string& leaf = step.value(id).name;
          CAPTURE(leaf);
          CHECK(second.Bytes(leaf) == whole.Bytes(leaf));
          CHECK(second.Bytes(leaf) != first.Bytes(leaf));
        }
      }
    }
  }
}

}  // namespace
}  // namespace stowage
