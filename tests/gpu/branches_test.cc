// Branches on the GPU's program: graphs that end where a body is chosen, in the emulator.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "gpu/gpu_needs.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/while.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tests/gpu/fake_device.h"
#include "tests/support/random_control_flow.h"
#include "tests/support/run_steps.h"

namespace stowage::testing {
namespace {

using fit::FindOffloadable;
using fit::Offload;

Graph Finished(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

Session Open(const Graph& graph, Backend& backend,
             const SessionOptions& options = {}) {
  const auto plan = PlanMemory(graph, {.device = backend.Needs()});
  REQUIRE_MESSAGE(plan.ok(), plan.error().message);
  auto session = Session::Create({{"p", graph, *plan}}, backend, options);
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  session->Initialize(1);
  return std::move(*session);
}

TEST_CASE("random loops and branches do what they do on the CPU") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (uint64_t seed = 0; seed < 40; ++seed) {
    INFO("seed ", seed);
    const Graph graph = MakeRandomControlFlow(seed);
    const auto gpu = MakeFakeBackend({.seed = seed}, nullptr);
    const Visible captured = RunSteps(graph, *gpu, {.seed = seed});
    CHECK(LargestDifference(captured, RunSteps(graph, *cpu, {.seed = seed})) <
          1e-5);
    const Visible one_by_one =
        RunSteps(graph, *gpu, {.seed = seed, .poison = true});
    CHECK(Differences(one_by_one, captured) == "");
  }
}

// One of three: x, -x, x + x; of an index in a type.
Graph OneOfThree(DType index) {
  GraphBuilder g("one of three");
  const Value x = g.Input("x", DType::kF32, {3});
  const Value which = g.Input("which", index, {});
  g.Output(
      "y",
      AddScalar(
          Cond(
              g, which, {x},
              {[](CondBody& body) { return std::vector{body.operand(0)}; },
               [](CondBody& body) { return std::vector{Neg(body.operand(0))}; },
               [](CondBody& body) {
                 return std::vector{Add(body.operand(0), body.operand(0))};
               }})[0],
          0.5));
  return Finished(g);
}

template <typename T>
StepCode StepWith(Runner& p, T which) {
  const T chosen[1] = {which};
  REQUIRE(p.WriteBytes("which", DTypeOf<T>(), std::as_bytes(std::span(chosen)))
              .ok());
  REQUIRE(p.Write("x", std::vector<float>{1, 2, 3}).ok());
  return p.Step();
}

float FirstOf(const Runner& p, const char* name) {
  std::vector<float> values(3);
  REQUIRE(p.Read(name, &values).ok());
  return values[0];
}

TEST_CASE("each step runs the body that it chooses, and no other") {
  for (const bool lazy : {false, true}) {
    FakeDevice* fake = nullptr;
    const auto gpu = MakeFakeBackend({.lazy_compute = lazy}, &fake);
    Session session = Open(OneOfThree(DType::kI32), *gpu);
    Runner& p = session.front();
    const std::pair<int32_t, float> steps[] = {
        {1, -0.5f}, {2, 2.5f}, {0, 1.5f}, {2, 2.5f}};
    for (const auto& [which, y] : steps) {
      const auto before = static_cast<std::ptrdiff_t>(fake->executed().size());
      const int64_t graphs = fake->calls("LaunchGraph");
      REQUIRE(StepWith(p, which) == StepCode::kOk);
      CHECK(FirstOf(p, "y") == y);
      // To the choice, the body, what follows, and the end: of which a launch each.
      CHECK(fake->calls("LaunchGraph") - graphs == 4);
      const auto& executed = fake->executed();
      CHECK(std::count(executed.begin() + before, executed.end(), "choose") ==
            1);
      // The others: begin and end, the body's one, which is a copy of the first, the
      // number added, the addition.
      CHECK(std::ssize(executed) - before == (which == 0 ? 5 : 6));
    }
  }
}

TEST_CASE("an index of any type, in range or not") {
  const auto gpu = MakeFakeBackend({}, nullptr);
  Session wide = Open(OneOfThree(DType::kI64), *gpu);
  CHECK(StepWith(wide.front(), int64_t{2}) == StepCode::kOk);
  CHECK(FirstOf(wide.front(), "y") == 2.5f);
  for (const int64_t bad : {int64_t{-1}, int64_t{3}, int64_t{1} << 32}) {
    const StepCode code = StepWith(wide.front(), bad);
    CHECK(code == StepCode::kIndexOutOfRange);
    CHECK(wide.front().Explain(code).message.find("\"cond_") !=
          std::string::npos);
  }
  CHECK(StepWith(wide.front(), int64_t{1}) == StepCode::kOk);
  CHECK(FirstOf(wide.front(), "y") == -0.5f);
  // True is the second.
  GraphBuilder g("bool");
  const Value x = g.Input("x", DType::kF32, {3});
  g.Output("y",
           Cond(g, g.Input("which", DType::kBool, {}), {x},
                {[](CondBody& body) { return std::vector{body.operand(0)}; },
                 [](CondBody& body) {
                   return std::vector{Neg(body.operand(0))};
                 }})[0]);
  const auto second = MakeFakeBackend({}, nullptr);
  Session session = Open(Finished(g), *second);
  CHECK(StepWith(session.front(), true) == StepCode::kOk);
  CHECK(FirstOf(session.front(), "y") == -1);
  CHECK(StepWith(session.front(), false) == StepCode::kOk);
  CHECK(FirstOf(session.front(), "y") == 1);
}

// Trains a weight by one of two losses.
Graph Chosen() {
  GraphBuilder g("chosen");
  const Value x = g.Input("x", DType::kF32, {4, 3});
  const Value which = g.Input("which", DType::kI32, {});
  const Value w = g.Param("w", DType::kF32, {3, 2}, Init::Normal(1));
  const Value y = Tanh(MatMul(x, w));
  g.Output("loss",
           Cond(g, which, {y},
                {[](CondBody& body) {
                   return std::vector{ReduceMean(Square(body.operand(0)))};
                 },
                 [](CondBody& body) {
                   return std::vector{ReduceMean(Exp(body.operand(0)))};
                 }})[0]);
  return *BuildTrainStep(Finished(g), "loss");
}

RunOptions Alternating(bool poison) {
  return {.steps = 4,
          .poison = poison,
          .write_inputs = [](Runner& p, int64_t step) {
            std::vector<float> x(12);
            for (size_t i = 0; i < x.size(); ++i) {
              x[i] = std::sin(static_cast<float>(step) + static_cast<float>(i));
            }
            REQUIRE(p.Write("x", x).ok());
            REQUIRE(p.Write("which", static_cast<int32_t>(step % 2)).ok());
            REQUIRE(p.Write("lr", 0.1f).ok());
            if (p.graph().Find("step")) REQUIRE(p.Write("step", step).ok());
          }};
}

TEST_CASE("a step trains by the loss that it chooses") {
  const Graph step = Chosen();
  const auto cpu = MakeCpuBackend({.threads = 1});
  const auto gpu = MakeFakeBackend({.seed = 5}, nullptr);
  const Visible expected = RunSteps(step, *cpu, Alternating(false));
  const Visible captured = RunSteps(step, *gpu, Alternating(false));
  CHECK(LargestDifference(captured, expected) < 1e-5);
  CHECK(Differences(RunSteps(step, *gpu, Alternating(true)), captured) == "");
}

TEST_CASE("copies to and from the host are done where a graph ends") {
  const Graph step = Chosen();
  const auto moved = Offload(step, FindOffloadable(step));
  REQUIRE_MESSAGE(moved.ok(), moved.error().message);
  const auto gpu = MakeFakeBackend({}, nullptr);
  const Visible expected = RunSteps(step, *gpu, Alternating(false));
  for (const bool lazy_compute : {false, true}) {
    for (const bool lazy_copy : {false, true}) {
      const auto lazy = MakeFakeBackend(
          {.lazy_compute = lazy_compute, .lazy_copy = lazy_copy}, nullptr);
      CHECK(Differences(RunSteps(*moved, *lazy, Alternating(false)),
                        expected) == "");
    }
  }
}

TEST_CASE(
    "a copy from the host that is under way at a branch ends with its graph") {
  GraphBuilder g("fetched");
  const Value x = g.Input("x", DType::kF32, {3});
  const Value fetched = Fetch(g.HostState("s", DType::kF32, {3}));
  const Value y = Cond(
      g, g.Input("which", DType::kI32, {}), {x},
      {[](CondBody& body) { return std::vector{body.operand(0)}; },
       [](CondBody& body) { return std::vector{Neg(body.operand(0))}; }})[0];
  g.Output("y", Add(y, fetched));
  const Graph graph = Finished(g);
  for (const bool lazy : {false, true}) {
    const auto gpu = MakeFakeBackend({.lazy_copy = lazy}, nullptr);
    Session session = Open(graph, *gpu);
    Runner& p = session.front();
    REQUIRE(p.Write("s", std::vector<float>{5, 6, 7}).ok());
    CHECK(StepWith(p, int32_t{1}) == StepCode::kOk);
    CHECK(FirstOf(p, "y") == 4);
    CHECK(StepWith(p, int32_t{0}) == StepCode::kOk);
    CHECK(FirstOf(p, "y") == 6);
  }
}

TEST_CASE("a bad choice updates nothing, and the next step goes on") {
  const auto gpu = MakeFakeBackend({}, nullptr);
  Session session = Open(Chosen(), *gpu);
  Runner& p = session.front();
  const auto weights = [&] {
    std::vector<float> w(6);
    REQUIRE(p.Read("w", &w).ok());
    return w;
  };
  const std::vector<float> before = weights();
  const RunOptions options = Alternating(false);
  options.write_inputs(p, 1);
  REQUIRE(p.Write("which", int32_t{7}).ok());
  CHECK(p.Step() == StepCode::kIndexOutOfRange);
  CHECK(weights() == before);
  options.write_inputs(p, 1);
  CHECK(p.Step() == StepCode::kOk);
  CHECK(weights() != before);
}

TEST_CASE("a bad choice leaves all that outlives a step as it was") {
  GraphBuilder g("states");
  const Value x = g.Input("x", DType::kF32, {3});
  const Value y = Cond(
      g, g.Input("which", DType::kI32, {}), {x},
      {[](CondBody& body) { return std::vector{Neg(body.operand(0))}; },
       [](CondBody& body) { return std::vector{Tanh(body.operand(0))}; }})[0];
  const Value assigned = g.State("assigned", DType::kF32, {3});
  const Value moved = g.State("moved", DType::kF32, {3});
  g.Output("a", Assign(assigned, y));
  g.Output("m", LerpUpdate(moved, y, Fill(g, 0.5, DType::kF32, {3})));
  const auto gpu = MakeFakeBackend({}, nullptr);
  Session session = Open(Finished(g), *gpu);
  Runner& p = session.front();
  CHECK(StepWith(p, int32_t{0}) == StepCode::kOk);
  CHECK(FirstOf(p, "assigned") == -1);
  CHECK(FirstOf(p, "moved") == -0.5f);
  CHECK(StepWith(p, int32_t{2}) == StepCode::kIndexOutOfRange);
  CHECK(FirstOf(p, "assigned") == -1);
  CHECK(FirstOf(p, "moved") == -0.5f);
  CHECK(StepWith(p, int32_t{0}) == StepCode::kOk);
  CHECK(FirstOf(p, "moved") == -0.75f);
}

TEST_CASE("a branch in a loop of very many trips is refused by their number") {
  GraphBuilder g("many");
  const Value x = g.Input("x", DType::kF32, {3});
  const Value which = g.Input("which", DType::kI32, {});
  const LoopResults run =
      Loop(g, 2000, {.carried = {x}, .whole = {which}}, [](LoopBody& body) {
        body.Next(
            0,
            Cond(body.builder(), body.whole(0), {body.carried(0)},
                 {[](CondBody& of) { return std::vector{Tanh(of.operand(0))}; },
                  [](CondBody& of) {
                    return std::vector{Neg(of.operand(0))};
                  }})[0]);
      });
  g.Output("y", run.carried[0]);
  const Graph graph = Finished(g);
  const auto gpu = MakeFakeBackend({}, nullptr);
  const auto session = Session::Create(
      {{"p", graph, *PlanMemory(graph, {.device = gpu->Needs()})}}, *gpu);
  REQUIRE_FALSE(session.ok());
  CHECK(session.error().code == ErrorCode::kUnsupported);
  CHECK(session.error().message.find("more than 4096 graphs") !=
        std::string::npos);
}

TEST_CASE("a while loop ends when its condition does") {
  GraphBuilder g("root");
  const Value a = g.Input("x", DType::kF32, {});
  const WhileResults root = While(
      g, /*most=*/12, {.carried = {a}, .whole = {a}},
      [](const WhileValues& v) {
        const Value off = Abs(Sub(Square(v.carried[0]), v.whole[0]));
        return Greater(off, Fill(v.builder, 1e-3, off.dtype(), {}));
      },
      [](const WhileValues& v) {
        return std::vector{
            MulScalar(Add(v.carried[0], Div(v.whole[0], v.carried[0])), 0.5)};
      });
  g.Output("root", root.carried[0]);
  g.Output("trips", root.trips);
  const auto gpu = MakeFakeBackend({}, nullptr);
  Session session = Open(Finished(g), *gpu);
  Runner& p = session.front();
  // Newton's method, from a itself.
  for (const float x : {1.0f, 2.0f, 900.0f}) {
    double value = x;
    int64_t trips = 0;
    while (trips < 12 && std::abs(value * value - x) > 1e-3) {
      value = 0.5 * (value + x / value);
      ++trips;
    }
    REQUIRE(p.Write("x", x).ok());
    REQUIRE(p.Step() == StepCode::kOk);
    CHECK(*p.ReadScalar("root") == doctest::Approx(value).epsilon(1e-5));
    std::vector<int64_t> ran(1);
    REQUIRE(p.Read("trips", &ran).ok());
    CHECK(ran[0] == trips);
  }
}

TEST_CASE("whatever fails between the graphs of a step is told") {
  const Graph graph = OneOfThree(DType::kI32);
  const auto plan = PlanMemory(graph, {.device = GpuNeeds()});
  for (const char* function : {"BeginCapture", "EndCapture"}) {
    for (int64_t nth = 1; nth <= 6; ++nth) {  // bodies, before, after, the end
      INFO(function, " ", nth);
      FakeDevice* fake = nullptr;
      const auto gpu = MakeFakeBackend({}, &fake);
      fake->Fail(function, nth);
      const auto session = Session::Create({{"p", graph, *plan}}, *gpu);
      REQUIRE_FALSE(session.ok());
      CHECK(session.error().message.starts_with("[gpu] "));
      CHECK(session.error().message.find("was told to fail") !=
            std::string::npos);
      CHECK(Session::Create({{"p", graph, *plan}}, *gpu).ok());
    }
  }
  for (const auto& [function, nth] : {std::pair{"LaunchGraph", 1},
                                      {"LaunchGraph", 2},
                                      {"LaunchGraph", 3},
                                      {"LaunchGraph", 4}}) {
    INFO(function, " ", nth);
    FakeDevice* fake = nullptr;
    const auto gpu = MakeFakeBackend({}, &fake);
    Session session = Open(graph, *gpu);
    fake->Fail(function, nth);
    CHECK(StepWith(session.front(), int32_t{1}) == StepCode::kDeviceFault);
  }
}

}  // namespace
}  // namespace stowage::testing
