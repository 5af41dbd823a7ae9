// Branches on the GPU's program, in the emulator: in one graph that chooses for itself, and
// in graphs that end where the host reads which body it is.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "base/strings.h"
#include "cluster/link.h"
#include "cpu/cpu_backend.h"
#include "gpu/gpu_backend.h"
#include "gpu/gpu_needs.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "planner/fit/offload/offload.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/session.h"
#include "tests/cluster/on_ranks.h"
#include "tests/gpu/fake_device.h"
#include "tests/support/offload_values_in_bodies.h"
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

// Who takes branches: the graph, and where that has none, the host.
constexpr FakeBranches kInGraph = FakeBranches::kRight;
constexpr FakeBranches kByHost = FakeBranches::kNone;
constexpr FakeBranches kBoth[] = {kInGraph, kByHost};

// Calls `test` for each.
void ForBoth(const std::function<void(FakeBranches)>& test) {
  for (const FakeBranches way : kBoth) {
    const char* const name = way == kInGraph ? "in the graph" : "by the host";
    INFO(name);
    test(way);
  }
}

bool TakesBranchesByHost(const Backend& backend) {
  return backend.description().find(gpu::kBranchesByHost) != std::string::npos;
}

TEST_CASE("random loops and branches do what they do on the CPU") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (uint64_t seed = 0; seed < 40; ++seed) {
    INFO("seed ", seed);
    Graph graph = MakeRandomControlFlow(seed);
    // Some keep values in the host's memory, within an iteration or a branch.
    if (seed % 2 == 1) graph = OffloadValuesInBodies(graph, seed);
    const Visible expected = RunSteps(graph, *cpu, {.seed = seed});
    std::vector<Visible> runs;
    ForBoth([&](FakeBranches way) {
      const auto gpu = MakeFakeBackend({.seed = seed,
                                        .lazy_compute = seed % 3 == 1,
                                        .lazy_copy = seed % 4 == 1,
                                        .branches = way},
                                       nullptr);
      runs.push_back(RunSteps(graph, *gpu, {.seed = seed}));
      CHECK(LargestDifference(runs.back(), expected) < 1e-5);
      const Visible one_by_one =
          RunSteps(graph, *gpu, {.seed = seed, .poison = true});
      CHECK(Differences(one_by_one, runs.back()) == "");
      CHECK((way == kByHost || !TakesBranchesByHost(*gpu)));
    });
    CHECK(Differences(runs[0], runs[1]) == "");
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
  ForBoth([](FakeBranches way) {
    for (const bool lazy : {false, true}) {
      FakeDevice* fake = nullptr;
      const auto gpu =
          MakeFakeBackend({.lazy_compute = lazy, .branches = way}, &fake);
      Session session = Open(OneOfThree(DType::kI32), *gpu);
      Runner& p = session.front();
      const std::pair<int32_t, float> steps[] = {
          {1, -0.5f}, {2, 2.5f}, {0, 1.5f}, {2, 2.5f}};
      for (const auto& [which, y] : steps) {
        const auto before =
            static_cast<std::ptrdiff_t>(fake->executed().size());
        const int64_t graphs = fake->calls("LaunchGraph");
        REQUIRE(StepWith(p, which) == StepCode::kOk);
        CHECK(FirstOf(p, "y") == y);
        // Of the host's, to the choice, the body, what follows, and the end.
        CHECK(fake->calls("LaunchGraph") - graphs == (way == kInGraph ? 1 : 4));
        const auto& executed = fake->executed();
        CHECK(std::count(executed.begin() + before, executed.end(),
                         way == kInGraph ? "choose in graph" : "choose") == 1);
        // The others: begin and end, the body's one, which is a copy of the first, the
        // number added, the addition.
        CHECK(std::ssize(executed) - before == (which == 0 ? 5 : 6));
      }
    }
  });
}

TEST_CASE("the host waits for no branch that is in the graph") {
  ForBoth([](FakeBranches way) {
    FakeDevice* fake = nullptr;
    const auto gpu = MakeFakeBackend(
        {.lazy_compute = true, .lazy_copy = true, .branches = way}, &fake);
    Session session = Open(OneOfThree(DType::kI32), *gpu);
    Runner& p = session.front();
    REQUIRE(StepWith(p, int32_t{0}) == StepCode::kOk);
    const auto waits = [&] {
      return fake->calls("SynchronizeStream") + fake->calls("SynchronizeEvent");
    };
    const size_t executed = fake->executed().size();
    const auto start = [&](int32_t which) {
      REQUIRE(p.Write("which", which).ok());
      REQUIRE(p.Write("x", std::vector<float>{1, 2, 3}).ok());
      const int64_t before = waits();
      const int64_t graphs = fake->calls("LaunchGraph");
      const uint64_t step = p.Start();
      CHECK(fake->calls("LaunchGraph") > graphs);
      // By the host: for the choice.
      CHECK(waits() - before == (way == kInGraph ? 0 : 1));
      return step;
    };
    const uint64_t first = start(1), second = start(2);
    if (way == kInGraph) CHECK(fake->executed().size() == executed);
    CHECK(p.Wait(first) == StepCode::kOk);
    CHECK(p.Wait(second) == StepCode::kOk);
    CHECK(FirstOf(p, "y") == 2.5f);
  });
}

TEST_CASE("an index of any type, in range or not") {
  ForBoth([](FakeBranches way) {
    const auto gpu = MakeFakeBackend({.branches = way}, nullptr);
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
    const auto second = MakeFakeBackend({.branches = way}, nullptr);
    Session session = Open(Finished(g), *second);
    CHECK(StepWith(session.front(), true) == StepCode::kOk);
    CHECK(FirstOf(session.front(), "y") == -1);
    CHECK(StepWith(session.front(), false) == StepCode::kOk);
    CHECK(FirstOf(session.front(), "y") == 1);
  });
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
  ForBoth([](FakeBranches way) {
    const Graph step = Chosen();
    const auto cpu = MakeCpuBackend({.threads = 1});
    const auto gpu = MakeFakeBackend({.seed = 5, .branches = way}, nullptr);
    const Visible expected = RunSteps(step, *cpu, Alternating(false));
    const Visible captured = RunSteps(step, *gpu, Alternating(false));
    CHECK(LargestDifference(captured, expected) < 1e-5);
    CHECK(Differences(RunSteps(step, *gpu, Alternating(true)), captured) == "");
  });
}

TEST_CASE("copies to and from the host are done where a branch begins") {
  ForBoth([](FakeBranches way) {
    const Graph step = Chosen();
    const auto moved = Offload(step, FindOffloadable(step));
    REQUIRE_MESSAGE(moved.ok(), moved.error().message);
    const auto gpu = MakeFakeBackend({.branches = way}, nullptr);
    const Visible expected = RunSteps(step, *gpu, Alternating(false));
    for (const bool lazy_compute : {false, true}) {
      for (const bool lazy_copy : {false, true}) {
        const auto lazy = MakeFakeBackend({.lazy_compute = lazy_compute,
                                           .lazy_copy = lazy_copy,
                                           .branches = way},
                                          nullptr);
        CHECK(Differences(RunSteps(*moved, *lazy, Alternating(false)),
                          expected) == "");
      }
    }
  });
}

TEST_CASE(
    "copies from the host that are under way at a branch, or at what a fault "
    "forbids behind it, end before it") {
  ForBoth([](FakeBranches way) {
    GraphBuilder g("reloaded");
    const Value x = g.Input("x", DType::kF32, {3});
    const Value reloaded = Reload(g.HostState("s", DType::kF32, {3}));
    const Value y = Cond(
        g, g.Input("which", DType::kI32, {}), {x},
        {[](CondBody& body) { return std::vector{body.operand(0)}; },
         [](CondBody& body) { return std::vector{Neg(body.operand(0))}; }})[0];
    const Value later = Reload(g.HostState("t", DType::kF32, {3}));
    g.Output("a", Assign(g.State("assigned", DType::kF32, {3}), y));
    g.Output("y", Add(Add(y, reloaded), later));
    const Graph graph = Finished(g);
    for (const bool lazy : {false, true}) {
      const auto gpu =
          MakeFakeBackend({.lazy_copy = lazy, .branches = way}, nullptr);
      Session session = Open(graph, *gpu);
      Runner& p = session.front();
      REQUIRE(p.Write("s", std::vector<float>{5, 6, 7}).ok());
      REQUIRE(p.Write("t", std::vector<float>{10, 20, 30}).ok());
      CHECK(StepWith(p, int32_t{1}) == StepCode::kOk);
      CHECK(FirstOf(p, "y") == 14);
      CHECK(StepWith(p, int32_t{0}) == StepCode::kOk);
      CHECK(FirstOf(p, "y") == 16);
      CHECK(FirstOf(p, "assigned") == 1);
    }
  });
}

TEST_CASE("a bad choice updates nothing, and the next step goes on") {
  ForBoth([](FakeBranches way) {
    const auto gpu = MakeFakeBackend({.branches = way}, nullptr);
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
  });
}

// Writes all kinds of what outlives a step: states that are assigned, moved and written in
// part, one of them on the host, of a branch that `y` makes of x and which.
Graph Writing(const std::function<Value(GraphBuilder&, Value, Value)>& y_of) {
  GraphBuilder g("states");
  const Value x = g.Input("x", DType::kF32, {3});
  const Value y = y_of(g, x, g.Input("which", DType::kI32, {}));
  const Value moved = g.State("moved", DType::kF32, {3});
  g.Output("a", Assign(g.State("assigned", DType::kF32, {3}), y));
  g.Output("m", LerpUpdate(moved, y, Fill(g, 0.5, DType::kF32, {3})));
  // Between them something that does not outlive a step.
  const Value twice = Add(y, y);
  g.Output("p", SliceUpdate(g.State("part", DType::kF32, {5}), twice, 0, 1));
  OffloadUpdate(g.HostState("afar", DType::kF32, {3}), twice);
  return Finished(g);
}

Value OneOfTwo(GraphBuilder& g, Value x, Value which) {
  return Cond(
      g, which, {x},
      {[](CondBody& body) { return std::vector{Neg(body.operand(0))}; },
       [](CondBody& body) { return std::vector{Tanh(body.operand(0))}; }})[0];
}

std::vector<float> StatesOf(const Runner& p) {
  std::vector<float> all;
  for (const auto& [name, size] : {std::pair{"assigned", size_t{3}},
                                   {"moved", size_t{3}},
                                   {"part", size_t{5}},
                                   {"afar", size_t{3}}}) {
    std::vector<float> state(size);
    REQUIRE(p.Read(name, &state).ok());
    all.insert(all.end(), state.begin(), state.end());
  }
  return all;
}

TEST_CASE("a bad choice leaves all that outlives a step as it was") {
  struct Case {
    const char* where;
    Graph graph;
  };
  const Case cases[] = {
      {"in the step", Writing(OneOfTwo)},
      {"in a loop", Writing([](GraphBuilder& g, Value x, Value which) {
         return Loop(g, 3, {.carried = {x}, .whole = {which}},
                     [](LoopBody& body) {
                       body.Next(0, OneOfTwo(body.builder(), body.carried(0),
                                             body.whole(0)));
                     })
             .carried[0];
       })},
      {"in a branch", Writing([](GraphBuilder& g, Value x, Value which) {
         return Cond(
             g, Fill(g, 1, DType::kI32, {}), {x, which},
             {[](CondBody& body) { return std::vector{Tanh(body.operand(0))}; },
              [](CondBody& body) {
                return std::vector{
                    OneOfTwo(body.builder(), body.operand(0), body.operand(1))};
              }})[0];
       })}};
  ForBoth([&](FakeBranches way) {
    for (const Case& each : cases) {
      for (const bool lazy : {false, true}) {
        INFO(each.where, ", lazy: ", lazy);
        const auto gpu = MakeFakeBackend(
            {.lazy_compute = lazy, .lazy_copy = lazy, .branches = way},
            nullptr);
        Session session = Open(each.graph, *gpu);
        Runner& p = session.front();
        CHECK(StepWith(p, int32_t{0}) == StepCode::kOk);
        // -1, thrice or once; half the way there; twice that, in the middle.
        const std::vector<float> first = StatesOf(p);
        CHECK(first == std::vector<float>{-1, -2, -3, -0.5, -1, -1.5, 0, -2, -4,
                                          -6, 0, -2, -4, -6});
        for (const int32_t bad : {2, -1}) {
          CHECK(StepWith(p, bad) == StepCode::kIndexOutOfRange);
          CHECK(StatesOf(p) == first);
        }
        CHECK(StepWith(p, int32_t{0}) == StepCode::kOk);
        CHECK(StatesOf(p)[3] == -0.75f);
      }
    }
  });
}

TEST_CASE("a bad index behind a branch is told with its own node") {
  GraphBuilder g("behind");
  const Value x = g.Input("x", DType::kF32, {3});
  const Value which = g.Input("which", DType::kI32, {});
  const Value y = OneOfTwo(g, x, Fill(g, 1, DType::kI32, {}));
  g.Output("a", Assign(g.State("assigned", DType::kF32, {3}), y));
  g.Output("p", g.Name("placed", SliceUpdate(g.State("part", DType::kF32, {5}),
                                             y, 0, which)));
  const Graph graph = Finished(g);
  ForBoth([&](FakeBranches way) {
    const auto gpu = MakeFakeBackend({.branches = way}, nullptr);
    Session session = Open(graph, *gpu);
    CHECK(StepWith(session.front(), int32_t{2}) == StepCode::kOk);
    const StepCode code = StepWith(session.front(), int32_t{3});
    CHECK(code == StepCode::kIndexOutOfRange);
    CHECK(session.front().Explain(code).message.find("\"placed\"") !=
          std::string::npos);
  });
}

TEST_CASE(
    "a branch in a loop of very many iterations is one graph, or refused by "
    "their "
    "number") {
  GraphBuilder g("many");
  const Value x = g.Input("x", DType::kF32, {3});
  const Value which = g.Input("which", DType::kI32, {});
  const LoopResults run =
      Loop(g, 2000, {.carried = {x}, .whole = {which}}, [](LoopBody& body) {
        body.Next(0, OneOfTwo(body.builder(), body.carried(0), body.whole(0)));
      });
  g.Output("y", run.carried[0]);
  const Graph graph = Finished(g);
  FakeDevice* fake = nullptr;
  const auto gpu = MakeFakeBackend({}, &fake);
  Session session = Open(graph, *gpu);
  const int64_t graphs = fake->calls("LaunchGraph");
  CHECK(StepWith(session.front(), int32_t{0}) == StepCode::kOk);
  CHECK(FirstOf(session.front(), "y") == 1);  // -1 by itself, 2000 times
  CHECK(fake->calls("LaunchGraph") == graphs + 1);

  const auto host = MakeFakeBackend({.branches = kByHost}, nullptr);
  const auto refused = Session::Create(
      {{"p", graph, *PlanMemory(graph, {.device = host->Needs()})}}, *host);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kUnsupported);
  CHECK(refused.error().message.find("more than 4096 graphs") !=
        std::string::npos);
}

TEST_CASE("a while loop ends when its condition does") {
  ForBoth([](FakeBranches way) {
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
    g.Output("iterations", root.iterations);
    const auto gpu = MakeFakeBackend({.branches = way}, nullptr);
    Session session = Open(Finished(g), *gpu);
    Runner& p = session.front();
    // Newton's method, from a itself.
    for (const float x : {1.0f, 2.0f, 900.0f}) {
      double value = x;
      int64_t iterations = 0;
      while (iterations < 12 && std::abs(value * value - x) > 1e-3) {
        value = 0.5 * (value + x / value);
        ++iterations;
      }
      REQUIRE(p.Write("x", x).ok());
      REQUIRE(p.Step() == StepCode::kOk);
      CHECK(*p.ReadScalar("root") == doctest::Approx(value).epsilon(1e-5));
      std::vector<int64_t> ran(1);
      REQUIRE(p.Read("iterations", &ran).ok());
      CHECK(ran[0] == iterations);
    }
  });
}

TEST_CASE("whatever fails between the graphs of a step is told") {
  const Graph graph = OneOfThree(DType::kI32);
  const auto plan = PlanMemory(graph, {.device = GpuNeeds()});
  for (const char* function : {"BeginCapture", "EndCapture"}) {
    for (int64_t nth = 1; nth <= 6; ++nth) {  // bodies, before, after, the end
      INFO(function, " ", nth);
      FakeDevice* fake = nullptr;
      const auto gpu = MakeFakeBackend({.branches = kByHost}, &fake);
      fake->Fail(function, nth);
      const auto session = Session::Create({{"p", graph, *plan}}, *gpu);
      REQUIRE_FALSE(session.ok());
      CHECK(session.error().message.starts_with("[gpu] "));
      CHECK(session.error().message.find("was told to fail") !=
            std::string::npos);
      CHECK(Session::Create({{"p", graph, *plan}}, *gpu).ok());
    }
  }
  ForBoth([&](FakeBranches way) {
    for (int64_t nth = 1; nth <= (way == kInGraph ? 1 : 4); ++nth) {
      INFO("LaunchGraph ", nth);
      FakeDevice* fake = nullptr;
      const auto gpu = MakeFakeBackend({.branches = way}, &fake);
      Session session = Open(graph, *gpu);
      fake->Fail("LaunchGraph", nth);
      CHECK(StepWith(session.front(), int32_t{1}) == StepCode::kDeviceFault);
    }
  });
}

// How often it is called until a session on this graph is open.
int64_t CallsToOpen(const Graph& graph, const char* function) {
  FakeDevice* fake = nullptr;
  const auto gpu = MakeFakeBackend({}, &fake);
  const Session session = Open(graph, *gpu);
  return fake->calls(function);
}

TEST_CASE("where branches cannot be put into a graph, the host takes them") {
  const Graph graph = OneOfThree(DType::kI32);
  // In the trial, and in the program's own capture.
  for (const char* function : {"NewChoice", "BeginBranch", "NextBody",
                               "BeginCapture", "EndCapture", "LaunchGraph"}) {
    const int64_t calls = CallsToOpen(graph, function);
    CHECK(calls > 0);
    for (int64_t nth = 1; nth <= calls; ++nth) {
      INFO(function, " ", nth);
      FakeDevice* fake = nullptr;
      const auto gpu = MakeFakeBackend({}, &fake);
      CHECK_FALSE(TakesBranchesByHost(*gpu));
      fake->Fail(function, nth);
      for (int again = 0; again < 2; ++again) {
        Session session = Open(graph, *gpu);
        const int64_t choices = fake->calls("NewChoice");
        CHECK(StepWith(session.front(), int32_t{1}) == StepCode::kOk);
        CHECK(FirstOf(session.front(), "y") == -0.5f);
        CHECK(fake->executed().size() > 3);
        CHECK(std::ranges::count(fake->executed(), "choose") == again + 1);
        CHECK(gpu->description().find(StrCat("the host takes branches: [gpu] ",
                                             function)) != std::string::npos);
        CHECK(fake->calls("NewChoice") == choices);
      }
    }
  }
}

TEST_CASE("a device whose graphs take other bodies is not trusted with them") {
  const Graph graph = OneOfThree(DType::kI32);
  for (const auto& [wrong, what] :
       {std::pair{FakeBranches::kNever,
                  R"(ran "" without a fault for the choices 0, 1; expected )"
                  R"("ad" without)"},
        {FakeBranches::kFirst,
         R"(ran "ad" without a fault for the choices 1, 0; expected "bd")"},
        {FakeBranches::kLate, R"(ran "" without a fault)"}}) {
    FakeDevice* fake = nullptr;
    const auto gpu = MakeFakeBackend({.branches = wrong}, &fake);
    Session session = Open(graph, *gpu);
    INFO(gpu->description());
    CHECK(gpu->description().find(what) != std::string::npos);
    for (const auto& [which, y] : {std::pair{0, 1.5f}, {1, -0.5f}, {2, 2.5f}}) {
      CHECK(StepWith(session.front(), which) == StepCode::kOk);
      CHECK(FirstOf(session.front(), "y") == y);
    }
  }
}

TEST_CASE("branches are tried once, and only where there are some") {
  GraphBuilder g("none");
  g.Output("y", Neg(g.Input("x", DType::kF32, {3})));
  const Graph none = Finished(g), some = OneOfThree(DType::kI32);
  FakeDevice* fake = nullptr;
  const auto gpu = MakeFakeBackend({}, &fake);
  const auto captures = [&](const Graph& graph) {
    const int64_t before = fake->calls("BeginCapture");
    const Session session = Open(graph, *gpu);
    return fake->calls("BeginCapture") - before;
  };
  CHECK(captures(none) == 1);
  CHECK(captures(some) == 2);
  CHECK(captures(some) == 1);
}

TEST_CASE("who asks for it has the host take branches") {
  const auto gpu =
      MakeFakeBackend({.backend = {.branches_by_host = true}}, nullptr);
  Session session = Open(OneOfThree(DType::kI32), *gpu);
  CHECK(TakesBranchesByHost(*gpu));
  CHECK(StepWith(session.front(), int32_t{1}) == StepCode::kOk);
  CHECK(FirstOf(session.front(), "y") == -0.5f);
}

TEST_CASE("of several ranks the host takes branches") {
  std::vector<std::string> described(2);
  cluster::OnRanks(2, [&](cluster::Link& link) {
    const auto gpu = MakeFakeBackend({.link = &link}, nullptr);
    Session session = Open(OneOfThree(DType::kI32), *gpu);
    CHECK(StepWith(session.front(), int32_t{1}) == StepCode::kOk);
    CHECK(FirstOf(session.front(), "y") == -0.5f);
    described[static_cast<size_t>(link.rank())] = gpu->description();
  });
  for (const std::string& each : described) {
    CHECK(each.find("the host takes branches: [gpu] NCCL") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace stowage::testing
