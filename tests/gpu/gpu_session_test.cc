#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "gpu/gpu_needs.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tests/gpu/fake_device.h"

namespace stowage::testing {
namespace {

// mean((x w - y)^2) with x (batch, 2), w (2, 1).
Graph Regression(int64_t batch) {
  GraphBuilder g("regression");
  Value x = g.Input("x", DType::kF32, {batch, 2});
  Value y = g.Input("y", DType::kF32, {batch, 1});
  Value w = g.Param("w", DType::kF32, {2, 1}, Init::Ones());
  g.Output("loss", MeanSquaredError(MatMul(x, w), y));
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

Graph StepOf(const Graph& forward, Optimizer optimizer = Sgd{}) {
  auto step = BuildTrainStep(forward, "loss", {.optimizer = optimizer});
  REQUIRE_MESSAGE(step.ok(), step.error().message);
  return std::move(*step);
}

Graph Classifier() {
  GraphBuilder g("classifier");
  Value logits = g.Input("logits", DType::kF32, {2, 3});
  Value warm = g.Name("warm", MulScalar(logits, 2));
  g.Output("loss", CrossEntropy(warm, g.Input("labels", DType::kI32, {2})));
  return *g.Finish();
}

Plan PlanOf(const Graph& graph, std::optional<WeightLayout> weights = {}) {
  auto plan =
      PlanMemory(graph, {.weights = std::move(weights), .device = GpuNeeds()});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  return std::move(*plan);
}

struct Fixture {
  explicit Fixture(const FakeOptions& options = {})
      : backend(MakeFakeBackend(options, &fake)) {}

  Session Open(std::vector<SessionProgram> programs,
               const SessionOptions& options = {}) {
    auto session = Session::Create(std::move(programs), *backend, options);
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    session->Initialize(1);
    return std::move(*session);
  }
  Error Refusal(std::vector<SessionProgram> programs,
                const SessionOptions& options = {}) {
    auto session = Session::Create(std::move(programs), *backend, options);
    REQUIRE_FALSE(session.ok());
    return session.error();
  }

  FakeDevice* fake = nullptr;
  std::unique_ptr<Backend> backend;
};

// Every way in which the two streams may keep their work for later.
std::vector<FakeOptions> AllTimings() {
  std::vector<FakeOptions> all;
  for (const bool lazy_compute : {false, true}) {
    for (const bool lazy_copy : {false, true}) {
      all.push_back({.lazy_compute = lazy_compute, .lazy_copy = lazy_copy});
    }
  }
  return all;
}

// Inputs of a step: x changes every step, y every third, lr at step 20.
void WriteInputs(Runner& train, int64_t step) {
  const auto s = static_cast<float>(step);
  REQUIRE(train.Write("x", std::vector<float>{std::sin(s), std::cos(s)}).ok());
  if (step % 3 == 1) {
    REQUIRE(train.Write("y", std::vector<float>{0.1f * s}).ok());
  }
  if (step == 1) REQUIRE(train.Write("lr", 0.125f).ok());
  if (step == 20) REQUIRE(train.Write("lr", 0.03125f).ok());
  REQUIRE(train.Write("step", step).ok());
}

std::vector<float> LossesStepByStep(Runner& train, int64_t steps) {
  std::vector<float> losses;
  for (int64_t step = 1; step <= steps; ++step) {
    WriteInputs(train, step);
    REQUIRE(train.Step() == StepCode::kOk);
    losses.push_back(*train.ReadScalar("loss"));
  }
  return losses;
}

// The loss of a step is read when `ahead` more have been started.
std::vector<float> LossesAhead(Runner& train, int64_t steps, uint64_t ahead) {
  std::vector<float> losses;
  uint64_t started = 0;
  for (int64_t step = 1; step <= steps; ++step) {
    WriteInputs(train, step);
    started = train.Start();
    if (started > ahead) {
      losses.push_back(*train.ReadScalar("loss", started - ahead));
    }
  }
  for (uint64_t last = started - ahead + 1; last <= started; ++last) {
    losses.push_back(*train.ReadScalar("loss", last));
  }
  return losses;
}

TEST_CASE("steps are the CPU's, however far ahead they are started") {
  const Graph step = StepOf(Regression(1), Momentum{});
  const auto cpu = MakeCpuBackend({.threads = 1});
  auto reference = Session::Create(
      {{"train", step, *PlanMemory(step, {.device = cpu->Needs()})}}, *cpu);
  REQUIRE(reference.ok());
  reference->Initialize(1);
  const auto expected = LossesStepByStep(reference->front(), 40);
  for (const FakeOptions& timing : AllTimings()) {
    INFO("lazy compute ", timing.lazy_compute, ", lazy copy ",
         timing.lazy_copy);
    std::vector<std::vector<float>> runs;
    {
      Fixture f(timing);
      Session session = f.Open({{"train", step, PlanOf(step)}});
      runs.push_back(LossesStepByStep(session.front(), 40));
    }
    for (const uint64_t ahead : {0, 1, 2, 3}) {
      Fixture f(timing);
      Session session = f.Open({{"train", step, PlanOf(step)}});
      runs.push_back(LossesAhead(session.front(), 40, ahead));
    }
    {
      Fixture f(timing);
      Session session = f.Open({{"train", step, PlanOf(step)}},
                               {.arena = {}, .poison = true});
      runs.push_back(LossesAhead(session.front(), 40, 1));
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      INFO("step ", i + 1);
      CHECK(runs[0][i] == doctest::Approx(expected[i]).epsilon(1e-5));
      for (const auto& run : runs) CHECK(run[i] == runs[0][i]);
    }
  }
}

TEST_CASE("the arena is the only allocation, and as large as planned") {
  Fixture f;
  const Graph step = StepOf(Regression(8));
  const Graph eval = Regression(4);
  const Plan plan = PlanOf(step);
  const WeightLayout layout = WeightLayout::FromForward(step, plan);
  Session session =
      f.Open({{"train", step, plan}, {"eval", eval, PlanOf(eval, layout)}});
  CHECK(f.fake->calls("Allocate") == 1);
  CHECK(f.fake->arena_bytes() == plan.arena_bytes());
  CHECK(session.arena_bytes() == plan.arena_bytes());
  CHECK(f.fake->calls("BeginCapture") == 2);  // one graph a program
}

TEST_CASE("a step launches one graph, and neither allocates nor waits") {
  Fixture f({.lazy_compute = true});
  const Graph step = StepOf(Regression(1));
  Session session = f.Open({{"train", step, PlanOf(step)}});
  Runner& train = session.front();
  WriteInputs(train, 1);
  train.Start();  // enters the arena
  const auto calls = [&](const char* name) { return f.fake->calls(name); };
  const int64_t blocked = calls("Blocked"), captured = calls("BeginCapture"),
                launched = calls("LaunchGraph"), copied = calls("Copy");
  const std::vector<const char*> forbidden = {
      "Allocate",     "AllocatePinned", "Memory",        "SynchronizeStream",
      "CreateStream", "CreateEvent",    "PrepareKernel", "PrepareMatMul",
      "Launch",       "MatMul",         "Fill"};
  std::vector<int64_t> before;
  for (const char* name : forbidden) before.push_back(calls(name));
  for (int64_t i = 2; i <= 4; ++i) {
    WriteInputs(train, i);
    REQUIRE(train.Write("lr", 0.5f / static_cast<float>(i)).ok());
    train.Start();
  }
  for (size_t i = 0; i < forbidden.size(); ++i) {
    INFO(forbidden[i]);
    CHECK(calls(forbidden[i]) == before[i]);
  }
  CHECK(calls("Blocked") == blocked);
  CHECK(calls("LaunchGraph") == launched + 3);
  CHECK(calls("Copy") == copied + 3);
  // A new learning rate is an input: nothing is captured again.
  for (int64_t i = 5; i <= 30; ++i) {
    WriteInputs(train, i);
    REQUIRE(train.Write("lr", 0.5f / static_cast<float>(i)).ok());
    REQUIRE(train.Step() == StepCode::kOk);
  }
  CHECK(calls("BeginCapture") == captured);
}

TEST_CASE("steps that nobody waits for are waited for in their turn") {
  const Graph step = StepOf(Regression(1));
  std::vector<float> expected;
  {
    Fixture f;
    Session session = f.Open({{"train", step, PlanOf(step)}});
    expected = LossesStepByStep(session.front(), 10);
  }
  Fixture f({.lazy_compute = true});
  Session session = f.Open({{"train", step, PlanOf(step)}});
  Runner& train = session.front();
  for (int64_t i = 1; i <= 10; ++i) {
    WriteInputs(train, i);
    train.Start();
  }
  CHECK(train.Wait(6) == StepCode::kStepUnknown);
  for (uint64_t i = 7; i <= 10; ++i) {
    CHECK(*train.ReadScalar("loss", i) == expected[i - 1]);
  }
}

TEST_CASE("inputs that stay are copied to each slot once") {
  Fixture f;
  const Graph step = StepOf(Regression(1));
  Session session = f.Open({{"train", step, PlanOf(step)}});
  Runner& train = session.front();
  WriteInputs(train, 1);
  for (int i = 0; i < 2; ++i) REQUIRE(train.Step() == StepCode::kOk);
  const int64_t copied = f.fake->calls("Copy");
  for (int i = 0; i < 10; ++i) REQUIRE(train.Step() == StepCode::kOk);
  CHECK(f.fake->calls("Copy") == copied);
}

TEST_CASE("what was written can be read at once, what was computed after it") {
  for (const FakeOptions& timing : AllTimings()) {
    Fixture f(timing);
    const Graph step = StepOf(Regression(1));
    Session session = f.Open({{"train", step, PlanOf(step)}});
    Runner& train = session.front();
    REQUIRE(train.Write("x", std::vector<float>{1, 2}).ok());
    std::vector<float> x(2), w(2);
    REQUIRE(train.Read("x", &x).ok());
    CHECK(x == std::vector<float>{1, 2});
    CHECK_FALSE(train.ReadScalar("loss").ok());
    REQUIRE(train.Write("y", std::vector<float>{1}).ok());
    REQUIRE(train.Write("lr", 0.125f).ok());
    REQUIRE(train.Write("step", int64_t{1}).ok());
    train.Start();
    // w = (1, 1): prediction 3, loss 4, gradient 2 * 2 * x = (4, 8).
    REQUIRE(train.Read("w", &w).ok());
    CHECK(w == std::vector<float>{0.5f, 0.0f});
    CHECK(*train.ReadScalar("loss") == 4.0f);
    // A param that is written is the next step's: prediction 5, loss 16.
    train.Start();
    REQUIRE(train.Write("w", std::vector<float>{1, 2}).ok());
    train.Start();
    CHECK(*train.ReadScalar("loss") == 16.0f);
    REQUIRE(train.Read("x", &x).ok());
    CHECK(x == std::vector<float>{1, 2});
  }
}

TEST_CASE("programs take turns in the arena") {
  for (const FakeOptions& timing : AllTimings()) {
    Fixture f(timing);
    const Graph step = StepOf(Regression(1), Momentum{});
    const Graph eval = Regression(4);
    const Plan plan = PlanOf(step);
    const WeightLayout layout = WeightLayout::FromForward(step, plan);
    Session session =
        f.Open({{"train", step, plan}, {"eval", eval, PlanOf(eval, layout)}});
    Runner& train = *session.Find("train");
    Runner& evaluate = *session.Find("eval");
    for (int round = 0; round < 3; ++round) {
      REQUIRE(train.Write("w", std::vector<float>{1, 1}).ok());
      REQUIRE(train.Write("x", std::vector<float>{1, 2}).ok());
      REQUIRE(train.Write("y", std::vector<float>{1}).ok());
      REQUIRE(train.Write("lr", round == 0 ? 0.125f : 0.0f).ok());
      REQUIRE(train.Write("step", int64_t{1}).ok());
      const uint64_t started = train.Start();
      // Evaluation takes the arena while the step may still be running.
      REQUIRE(
          evaluate.Write("x", std::vector<float>{2, 0, 0, 1, 0, 0, 2, 2}).ok());
      REQUIRE(evaluate.Write("y", std::vector<float>(4, 0)).ok());
      REQUIRE(evaluate.Step() == StepCode::kOk);
      // w is (0.5, 0) at first: predictions 1, 0, 0, 1; (1, 1) later: 2, 1, 0,
      // 4.
      CHECK(*evaluate.ReadScalar("loss") == (round == 0 ? 0.5f : 5.25f));
      CHECK(*train.ReadScalar("loss", started) == 4.0f);
      CHECK(train.Step() == StepCode::kInputsMissing);
      CHECK_FALSE(train.ReadScalar("loss").ok());
    }
  }
}

TEST_CASE("a label out of range names its node, and the next step is well") {
  const Graph graph = Classifier();
  for (const bool check : {false, true}) {
    Fixture f({.backend = {.check = check}});
    Session session = f.Open({{"p", graph, PlanOf(graph)}});
    Runner& p = session.front();
    REQUIRE(p.Write("logits", std::vector<float>(6, 0)).ok());
    REQUIRE(p.Write("labels", std::vector<int32_t>{0, 3}).ok());
    const StepCode code = p.Step();
    REQUIRE(code == StepCode::kIndexOutOfRange);
    CHECK(p.Explain(code).message ==
          "[session] program \"p\" failed at \"loss\": an index or label is "
          "outside its range; check the integer inputs");
    CHECK_FALSE(p.ReadScalar("loss").ok());
    REQUIRE(p.Write("labels", std::vector<int32_t>{0, 2}).ok());
    REQUIRE(p.Step() == StepCode::kOk);
    CHECK(*p.ReadScalar("loss") == doctest::Approx(std::log(3.0)));
  }
}

TEST_CASE("a step that fails does not stop those started after it") {
  Fixture f({.lazy_compute = true});
  const Graph graph = Classifier();
  Session session = f.Open({{"p", graph, PlanOf(graph)}});
  Runner& p = session.front();
  REQUIRE(p.Write("logits", std::vector<float>(6, 0)).ok());
  REQUIRE(p.Write("labels", std::vector<int32_t>{0, 3}).ok());
  const uint64_t bad = p.Start();
  REQUIRE(p.Write("labels", std::vector<int32_t>{0, 2}).ok());
  const uint64_t good = p.Start();
  CHECK(p.Wait(bad) == StepCode::kIndexOutOfRange);
  CHECK(p.ReadScalar("loss", bad).error().message.find("failed at \"loss\"") !=
        std::string::npos);
  CHECK(p.Wait(good) == StepCode::kOk);
  CHECK(*p.ReadScalar("loss", good) == doctest::Approx(std::log(3.0)));
}

// Everything that outlives a step.
std::vector<float> WeightsOf(const Runner& runner) {
  std::vector<float> all;
  for (const Role role : {Role::kParam, Role::kState}) {
    for (const ValueId id : runner.graph().Leaves(role)) {
      const ValueInfo& value = runner.graph().value(id);
      std::vector<float> content(
          static_cast<size_t>(value.type.shape.num_elements()));
      REQUIRE(runner.Read(value.name, &content).ok());
      all.insert(all.end(), content.begin(), content.end());
    }
  }
  return all;
}

TEST_CASE("a step with a bad label updates nothing, on either backend") {
  GraphBuilder g("linear");
  Value logits = MatMul(g.Input("x", DType::kF32, {2, 4}),
                        g.Param("w", DType::kF32, {4, 3}, Init::Normal(1)));
  g.Output("loss", CrossEntropy(logits, g.Input("labels", DType::kI32, {2})));
  const Graph forward = *g.Finish();
  const auto step = [](Runner& train, int64_t number, int32_t label) {
    const auto x = static_cast<float>(number);
    REQUIRE(train.Write("x", std::vector<float>{x, 1, 2, 0, -1, x, 0, 1}).ok());
    REQUIRE(train.Write("labels", std::vector<int32_t>{0, label}).ok());
    REQUIRE(train.Write("lr", 0.125f).ok());
    REQUIRE(train.Write("step", number).ok());
    return train.Step();
  };
  const auto check = [&](Runner& train) {
    REQUIRE(step(train, 1, 2) == StepCode::kOk);
    const std::vector<float> before = WeightsOf(train);
    REQUIRE(step(train, 2, 3) == StepCode::kIndexOutOfRange);
    CHECK(WeightsOf(train) == before);
    REQUIRE(step(train, 2, 1) == StepCode::kOk);
    CHECK(WeightsOf(train) != before);
    return WeightsOf(train);
  };
  const Optimizer optimizers[] = {Sgd{}, Momentum{}, AdamW{}};
  for (const Optimizer& optimizer : optimizers) {
    const Graph graph = StepOf(forward, optimizer);
    const auto cpu = MakeCpuBackend({.threads = 1});
    auto reference = Session::Create(
        {{"train", graph, *PlanMemory(graph, {.device = cpu->Needs()})}}, *cpu);
    REQUIRE(reference.ok());
    reference->Initialize(1);
    const std::vector<float> want = check(reference->front());
    for (const bool checked : {false, true}) {
      Fixture f({.backend = {.check = checked}});
      Session session = f.Open({{"train", graph, PlanOf(graph)}});
      const std::vector<float> got = check(session.front());
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("a checked run names the first result that is not finite") {
  const Graph graph = Classifier();
  const auto step = [&](Runner& p) {
    REQUIRE(p.Write("labels", std::vector<int32_t>{0, 1}).ok());
    const float inf = std::numeric_limits<float>::infinity();
    REQUIRE(p.Write("logits", std::vector<float>{0, 0, 0, 0, inf, 0}).ok());
    return p.Step();
  };
  {
    Fixture f({.backend = {.check = true}});
    Session session = f.Open({{"p", graph, PlanOf(graph)}});
    Runner& p = session.front();
    const StepCode code = step(p);
    REQUIRE(code == StepCode::kNonFinite);
    CHECK(p.Explain(code).message ==
          "[session] program \"p\" failed at \"warm\": the result holds NaN or "
          "infinity, and is the first that does");
    CHECK(f.fake->calls("BeginCapture") == 0);
    REQUIRE(p.Write("logits", std::vector<float>(6, 1)).ok());
    CHECK(p.Step() == StepCode::kOk);
    CHECK(*p.ReadScalar("loss") == doctest::Approx(std::log(3.0)));
  }
  Fixture f;  // unchecked, it is the caller's to look
  Session session = f.Open({{"p", graph, PlanOf(graph)}});
  CHECK(step(session.front()) == StepCode::kOk);
  CHECK_FALSE(std::isfinite(*session.front().ReadScalar("loss")));
}

TEST_CASE(
    "a device that fails is an error from then on, a check names the op") {
  const Graph graph = Classifier();
  for (const bool check : {false, true}) {
    Fixture f({.lazy_compute = true, .backend = {.check = check}});
    Session session = f.Open({{"p", graph, PlanOf(graph)}});
    Runner& p = session.front();
    REQUIRE(p.Write("logits", std::vector<float>(6, 0)).ok());
    REQUIRE(p.Write("labels", std::vector<int32_t>{0, 1}).ok());
    REQUIRE(p.Step() == StepCode::kOk);
    const auto& executed = f.fake->executed();
    const auto begin = std::ranges::find(executed, "begin step");
    f.fake->FailInKernel(check ? executed.front() : *(begin + 1));
    const StepCode code = p.Step();
    REQUIRE(code == StepCode::kDeviceFault);
    const Error error = p.Explain(code);
    CHECK(error.code == ErrorCode::kDevice);
    if (check) {
      CHECK(error.message ==
            "[session] program \"p\" failed on the device at \"fill_1\": [gpu] "
            "an "
            "illegal memory access");
    } else {
      CHECK(error.message ==
            "[session] program \"p\" failed on the device: [gpu] an illegal "
            "memory access; a run that checks every op names it");
    }
    CHECK(p.Step() == StepCode::kDeviceFault);
    CHECK_FALSE(p.ReadScalar("loss").ok());
  }
}

TEST_CASE("whatever the device cannot do when a program is bound is told") {
  const Graph step = StepOf(Regression(4));
  for (const char* function :
       {"Allocate", "AllocatePinned", "CreateEvent", "PrepareKernel",
        "PrepareMatMul", "SynchronizeStream", "BeginCapture", "EndCapture",
        "Launch", "MatMul"}) {
    INFO(function);
    Fixture f;
    f.fake->Fail(function);
    const Error error = f.Refusal({{"train", step, PlanOf(step)}});
    CHECK(error.code == ErrorCode::kDevice);
    CHECK(error.message.starts_with(
        StrCat("[gpu] ", function, " was told to fail")));
    // The same session can be had when the device can.
    f.Open({{"train", step, PlanOf(step)}});
  }
  Fixture f;
  f.fake->Fail("PrepareMatMul");
  CHECK(f.Refusal({{"train", step, PlanOf(step)}}).message ==
        "[gpu] PrepareMatMul was told to fail (at \"matmul_1\")");
}

TEST_CASE("whatever fails in a step is that step's error") {
  const Graph graph = Classifier();
  for (const char* function : {"LaunchGraph", "Record", "Await", "Copy"}) {
    INFO(function);
    Fixture f;
    Session session = f.Open({{"p", graph, PlanOf(graph)}});
    Runner& p = session.front();
    REQUIRE(p.Write("logits", std::vector<float>(6, 0)).ok());
    REQUIRE(p.Write("labels", std::vector<int32_t>{0, 1}).ok());
    f.fake->Fail(function);
    const StepCode code = p.Step();
    CHECK(code == StepCode::kDeviceFault);
    CHECK(p.Explain(code).message.find(StrCat(
              "[gpu] ", function, " was told to fail")) != std::string::npos);
    CHECK(p.Explain(code).code == ErrorCode::kDevice);
  }
}

TEST_CASE("a card without room for the arena says what it has") {
  const Graph step = StepOf(Regression(8));
  const Plan plan = PlanOf(step);
  Fixture f({.total = 100'000'000 + plan.arena_bytes() - 1});
  const Error error = f.Refusal({{"train", step, plan}});
  CHECK(error.code == ErrorCode::kDevice);
  CHECK(error.message ==
        StrCat("[gpu] an arena of ", FormatBytes(plan.arena_bytes()), " (",
               plan.arena_bytes(), " bytes) cannot be allocated on Fake GPU: ",
               FormatBytes(plan.arena_bytes() - 1),
               " of 95.4 MiB are free; end "
               "what else uses it, or plan with a smaller budget"));
  Fixture enough({.total = 100'000'000 + plan.arena_bytes()});
  enough.Open({{"train", step, plan}});
}

TEST_CASE("a budget above the card's memory is refused before any plan") {
  Fixture f;
  CHECK(f.backend->CheckBudget(int64_t{1} << 30).ok());
  const Status refused = f.backend->CheckBudget((int64_t{1} << 30) + 1);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kDevice);
  CHECK(refused.error().message ==
        "[gpu] budget 1.0 GiB (1073741825 bytes) is above the 1.0 GiB "
        "(1073741824 bytes) of Fake GPU; give a smaller one");
}

TEST_CASE("memory beside the arena is told apart") {
  Fixture f;
  const Graph step = StepOf(Regression(8));
  const Plan plan = PlanOf(step);
  Session session = f.Open({{"train", step, plan}});
  const auto notes = f.backend->MemoryBesideArena();
  REQUIRE(notes.size() == 3);
  // Two slots of four inputs (64 + 32 + 4 + 8 bytes, 256 each), and a ring of
  // four entries of 64.
  CHECK(notes[0].bytes == 2 * 4 * 256 + 4 * 64 + 64);
  CHECK(notes[1].bytes == 100'000'000);
  CHECK(notes[2].bytes == 1'000'000);
}

TEST_CASE("plans and arenas that a device cannot take are refused") {
  Fixture f;
  const Graph step = StepOf(Regression(8));
  const Plan plan = PlanOf(step);
  std::vector<std::byte> block(static_cast<size_t>(plan.arena_bytes()) + 256);
  void* at = block.data();
  size_t room = block.size();
  auto* const base =
      static_cast<std::byte*>(std::align(256, block.size() - 256, at, room));
  CHECK(f.Refusal({{"train", step, plan}},
                  {.arena = {base, block.size() - 256}, .poison = false})
            .message ==
        "[gpu] the arena of a device is allocated there; leave "
        "SessionOptions::arena empty");

  const Plan loose = *PlanMemory(step, {.alignment = 64, .device = GpuNeeds()});
  CHECK(
      f.Refusal({{"train", step, loose}}).message ==
      "[gpu] the plan is aligned to 64 bytes; the kernels need 256; plan with "
      "alignment 256");
  const Plan wide = *PlanMemory(step, {.alignment = 512, .device = GpuNeeds()});
  const Error too_wide = f.Refusal({{"train", step, wide}});
  CHECK(too_wide.code == ErrorCode::kInvalidArgument);
  CHECK(too_wide.message ==
        "[gpu] the plan is aligned to 512 bytes; a device gives blocks at "
        "multiples of 256; plan with alignment 256");
  const Plan bare = *PlanMemory(step, {.device = {.workspace = GpuWorkspace}});
  CHECK(f.Refusal({{"train", step, bare}})
            .message.find("the plan has 0; plan with PlanOptions::reserve") !=
        std::string::npos);

  GraphBuilder g("double");
  g.Output("y", Exp(g.Input("x", DType::kF64, {4})));
  const Graph doubles = *g.Finish();
  const Error error = f.Refusal({{"p", doubles, PlanOf(doubles)}});
  CHECK(error.code == ErrorCode::kUnsupported);
}

TEST_CASE("operands that a kernel is not made for are refused by name") {
  GraphBuilder wide("wide heads");
  const auto heads = [&wide](const char* name) {
    return wide.Input(name, DType::kBF16, {1, 8, 2, 257});
  };
  const Value q = heads("q");
  wide.Output("o", CausalAttention(q, heads("k"), heads("v"), 0.1));
  const Status too_wide = GpuSupports(*wide.Finish());
  REQUIRE_FALSE(too_wide.ok());
  CHECK(too_wide.error().code == ErrorCode::kUnsupported);
  CHECK(too_wide.error().message ==
        "[gpu] attention of \"o\" is too large: a head of \"q\" has 257 "
        "elements; expected at most 256; make it smaller, or use the cpu");

  GraphBuilder tall("tall table");
  const int64_t rows = int64_t{1} << 31;
  tall.Output("y", ScatterAdd(tall.Input("table", DType::kF16, {rows, 1}),
                              tall.Input("rows", DType::kI64, {3}),
                              tall.Input("updates", DType::kF16, {3, 1})));
  const Status too_tall = GpuSupports(*tall.Finish());
  REQUIRE_FALSE(too_tall.ok());
  CHECK(too_tall.error().message ==
        "[gpu] scatter_add of \"y\" is too large: \"table\" has 2147483648 "
        "rows; expected at most 2147483647; make it smaller, or use the cpu");

  GraphBuilder capped("capped");
  const Value x3 = capped.Input("x", DType::kF32, {1, 4, 2, 8});
  capped.Output("o", Attention(x3, x3, x3, {.softcap = 50}));
  const Status with_cap = GpuSupports(*capped.Finish());
  REQUIRE_FALSE(with_cap.ok());
  CHECK(with_cap.error().code == ErrorCode::kUnsupported);
  CHECK(with_cap.error().message ==
        "[gpu] attention of \"o\" has a softcap of 50, for which there is no "
        "kernel; use the cpu");

  GraphBuilder doubles("doubles");
  const Value x = doubles.Input("x", DType::kF64, {4});
  doubles.Output("y", Exp(x));
  const Status type = GpuSupports(*doubles.Finish());
  REQUIRE_FALSE(type.ok());
  CHECK(type.error().message ==
        "[gpu] exp of \"y\" is not computed in this element type: \"x\" is "
        "f64(4); cast to f32, bf16 or f16 first");
}

TEST_CASE("what stands in for an op of another framework is refused") {
  Fixture f;
  GraphBuilder g("planned only");
  const Value x = g.Input("x", DType::kF32, {2, 3});
  const Shape shape = {2, 4};
  g.Output("y", StandIn({&x, 1}, DType::kF32, {&shape, 1}, 48)[0]);
  const Graph graph = *g.Finish();
  const Error error = f.Refusal({{"p", graph, PlanOf(graph)}});
  CHECK(error.code == ErrorCode::kUnsupported);
  CHECK(error.message ==
        "[gpu] stand_in of \"y\" has no kernel; a graph that holds it can be "
        "planned, not run");
}

TEST_CASE("inputs that a plan has scattered are refused") {
  Fixture f;
  const Graph graph = Classifier();
  Plan plan = PlanOf(graph);
  // Behind the reserve, where the copy of a slot would run over it.
  PlannedBuffer& labels = plan.buffers[static_cast<size_t>(
      plan.buffer_of[static_cast<size_t>(*graph.Find("labels"))])];
  labels.offset = plan.regions.io;
  plan.regions.io += 256;
  CHECK(f.Refusal({{"p", graph, plan}})
            .message.find("the inputs of the plan are not in one piece") !=
        std::string::npos);
}

TEST_CASE("the reserve of a graph beyond 64 bits is an error of the plan") {
  GraphBuilder g("vast");
  g.Output("y", Neg(g.Input("x", DType::kF32, {int64_t{1} << 60})));
  const auto plan = PlanMemory(*g.Finish(), {.device = GpuNeeds()});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message.find("does not fit 64 bits") != std::string::npos);
}

}  // namespace
}  // namespace stowage::testing
