// What runs of a program leave to its next ones (Role::kCache).

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"

namespace stowage {
namespace {

using Floats = std::vector<float>;

Graph Finished(GraphBuilder& g) {
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

// "sum", of everything that the runs were given times w; `times` each.
Graph Sums(double times) {
  GraphBuilder g("sums");
  const Value x = g.Input("x", DType::kF32, {2});
  const Value w = g.Param("w", DType::kF32, {2}, Init::Ones());
  const Value before = g.Cache("kept", DType::kF32, {2});
  const Value scaled = Mul(Mul(x, w), Fill(g, times, DType::kF32, {}));
  const Value sum = Add(before, scaled);
  Assign(before, sum);
  g.Output("sum", sum);
  return Finished(g);
}

// Knows no cache.
Graph Doubles() {
  GraphBuilder g("doubles");
  const Value x = g.Input("x", DType::kF32, {64});
  g.Output("y", Add(x, x));
  return Finished(g);
}

struct Fixture {
  std::unique_ptr<Backend> cpu = MakeCpuBackend({.threads = 1});

  // Of `first` is the layout of weights for all.
  std::vector<SessionProgram> Planned(
      std::vector<std::pair<std::string, Graph>> graphs) {
    std::vector<SessionProgram> programs;
    std::optional<WeightLayout> layout;
    for (auto& [name, graph] : graphs) {
      auto plan =
          PlanMemory(graph, {.weights = layout, .device = cpu->Needs()});
      REQUIRE_MESSAGE(plan.ok(), plan.error().message);
      if (!layout) layout = WeightLayout::FromForward(graph, *plan);
      programs.push_back({name, std::move(graph), std::move(*plan)});
    }
    return programs;
  }
  Session Open(std::vector<std::pair<std::string, Graph>> graphs) {
    auto session =
        Session::Create(Planned(std::move(graphs)), *cpu, {.poison = true});
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    session->Initialize(1);
    return std::move(*session);
  }
};

Floats SumAfter(Runner& runner, const Floats& x) {
  REQUIRE(runner.Write("x", x).ok());
  const StepCode code = runner.Step();
  REQUIRE_MESSAGE(code == StepCode::kOk, runner.Explain(code).message);
  Floats sum(2);
  REQUIRE(runner.Read("sum", &sum).ok());
  return sum;
}

// That a step is refused for the cache.
void CheckLost(Runner& runner) {
  REQUIRE(runner.Write("x", Floats{1, 1}).ok());
  const StepCode code = runner.Step();
  CHECK(code == StepCode::kInputsMissing);
  CHECK(runner.Explain(code).message ==
        "[session] program \"" + runner.name() +
            "\" was stepped without what it keeps in \"kept\": it was never "
            "cleared, or a program without that cache has been used since; "
            "call ClearCaches and begin anew");
  CHECK_FALSE(runner.keeps_caches());
}

TEST_CASE_FIXTURE(Fixture, "a cache keeps what a step leaves to the next") {
  Session session = Open({{"a", Sums(1)}});
  Runner& a = session.front();
  CheckLost(a);
  REQUIRE(a.ClearCaches().ok());
  CHECK(a.keeps_caches());
  CHECK(SumAfter(a, {1, 10}) == Floats{1, 10});
  CHECK(SumAfter(a, {2, 20}) == Floats{3, 30});
  CHECK(a.Step() == StepCode::kOk);  // inputs stay, too
  Floats kept(2);
  REQUIRE(a.Read("kept", &kept).ok());
  CHECK(kept == Floats{5, 50});

  REQUIRE(a.ClearCaches().ok());
  REQUIRE(a.Read("kept", &kept).ok());
  CHECK(kept == Floats{0, 0});
  REQUIRE(a.Write("kept", Floats{100, 200}).ok());
  CHECK(SumAfter(a, {1, 2}) == Floats{101, 202});
}

TEST_CASE_FIXTURE(Fixture, "programs hand over the caches that both have") {
  Session session = Open({{"a", Sums(1)}, {"b", Sums(10)}, {"c", Doubles()}});
  Runner& a = *session.Find("a");
  Runner& b = *session.Find("b");
  Runner& c = *session.Find("c");
  REQUIRE(a.ClearCaches().ok());
  CHECK(SumAfter(a, {1, 2}) == Floats{1, 2});
  CHECK(b.keeps_caches());
  CHECK(SumAfter(b, {3, 4}) == Floats{31, 42});
  CHECK(SumAfter(a, {1, 1}) == Floats{32, 43});

  // One that has none may write over it.
  REQUIRE(c.Write("x", Floats(64, 3)).ok());
  REQUIRE(c.Step() == StepCode::kOk);
  CheckLost(a);
  CheckLost(b);
  REQUIRE(b.ClearCaches().ok());
  CHECK(SumAfter(a, {1, 2}) == Floats{1, 2});
}

TEST_CASE_FIXTURE(Fixture, "what other weights have left in a cache is lost") {
  Session session = Open({{"a", Sums(1)}});
  Runner& a = session.front();
  const auto fill = [&] {
    REQUIRE(a.ClearCaches().ok());
    SumAfter(a, {1, 2});
    REQUIRE(a.keeps_caches());
  };
  fill();
  REQUIRE(a.Write("w", Floats{2, 2}).ok());
  CheckLost(a);
  fill();
  const Floats part = {5};
  REQUIRE(
      a.WritePart("w", DType::kF32, 0, std::as_bytes(std::span(part))).ok());
  CheckLost(a);
  fill();
  session.Initialize(1);
  CheckLost(a);
}

TEST_CASE_FIXTURE(Fixture, "what has no place in a cache is not written") {
  GraphBuilder g("places");
  const Value at = g.Input("at", DType::kI32, {});
  const Value x = g.Input("x", DType::kF32, {2});
  SliceUpdate(g.Cache("kept", DType::kF32, {5}), x, 0, at);
  g.Output("x_again", Neg(x));
  Session session = Open({{"a", Finished(g)}});
  Runner& a = session.front();
  REQUIRE(a.ClearCaches().ok());
  REQUIRE(a.Write("x", Floats{7, 8}).ok());
  REQUIRE(a.Write("at", int32_t{3}).ok());
  REQUIRE(a.Step() == StepCode::kOk);
  for (const int32_t beyond : {4, 5, -1, 2'000'000'000}) {
    CAPTURE(beyond);
    REQUIRE(a.Write("at", beyond).ok());
    CHECK(a.Step() == StepCode::kIndexOutOfRange);
    Floats kept(5);
    REQUIRE(a.Read("kept", &kept).ok());
    CHECK(kept == Floats{0, 0, 0, 7, 8});
  }
}

TEST_CASE_FIXTURE(Fixture, "programs that disagree on a cache are refused") {
  const auto refusal = [&](std::vector<std::pair<std::string, Graph>> graphs) {
    const auto session = Session::Create(Planned(std::move(graphs)), *cpu);
    REQUIRE_FALSE(session.ok());
    return session.error().message;
  };
  const auto caches = [](std::vector<std::pair<std::string, Shape>> declared) {
    GraphBuilder g("caches");
    const Value x = g.Input("x", DType::kF32, {4});
    for (const auto& [name, shape] : declared) {
      const Value cache = g.Cache(name, DType::kF32, shape);
      Assign(cache, BroadcastTo(Slice(x, 0, 0, 1), shape));
    }
    return Finished(g);
  };
  CHECK(refusal({{"a", caches({{"k", {4}}})}, {"b", caches({{"k", {8}}})}}) ==
        "[session] programs \"a\" and \"b\" disagree on cache \"k\": f32(4) at "
        "0 and f32(8) at 0; programs that share caches declare the same ones "
        "in one order");
  CHECK(refusal({{"a", caches({{"k", {64}}, {"v", {64}}})},
                 {"b", caches({{"v", {64}}, {"k", {64}}})}}) ==
        "[session] programs \"a\" and \"b\" disagree on cache \"v\": f32(64) "
        "at 256 and f32(64) at 0; programs that share caches declare the same "
        "ones in one order");
}

TEST_CASE_FIXTURE(Fixture,
                  "caches lie before inputs, whatever was said first") {
  const Graph graph = Sums(1);
  const auto plan = PlanMemory(graph, {.device = cpu->Needs()});
  REQUIRE(plan.ok());
  const auto slot = [&](std::string_view name) {
    return plan->buffers[static_cast<size_t>(
        plan->buffer_of[static_cast<size_t>(*graph.Find(name))])];
  };
  CHECK(slot("kept").region == Region::kIo);
  CHECK(slot("kept").offset == 0);
  CHECK(slot("x").offset == 256);
  CHECK(plan->regions.io == 512);
}

TEST_CASE("a step of training has no caches") {
  GraphBuilder g("forward");
  const Value w = g.Param("w", DType::kF32, {2}, Init::Ones());
  const Value kept = g.Cache("kept", DType::kF32, {2});
  g.Output("loss", ReduceSum(Mul(w, kept)));
  const auto step = BuildTrainStep(Finished(g), "loss");
  REQUIRE_FALSE(step.ok());
  CHECK(step.error().message ==
        "[autodiff] graph \"forward\" has the cache \"kept\"; a step of "
        "training keeps nothing for the next one but params and states");
}

}  // namespace
}  // namespace stowage
