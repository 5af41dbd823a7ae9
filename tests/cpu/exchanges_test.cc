// Exchanges between ranks that are under way while a step goes on.

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "cpu/kernel.h"
#include "cpu/launch_list.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/uses.h"
#include "planner/lifetimes.h"
#include "planner/plan_memory.h"
#include "runtime/backend.h"
#include "runtime/program.h"
#include "runtime/session.h"
#include "tools/heap_counter.h"

namespace stowage {
namespace {

std::vector<std::pair<NodeId, NodeId>> Landings(const Graph& graph) {
  const Layouts layouts = ComputeLayouts(graph);
  std::vector<std::pair<NodeId, NodeId>> landings;
  for (const Exchange& each :
       ExchangesOf(graph, Uses(graph, layouts), layouts)) {
    landings.emplace_back(each.node, each.lands);
  }
  return landings;
}

using Times = std::pair<Time, Time>;

Times LifeOf(const Graph& graph, const Lifetimes& lifetimes,
             std::string_view name) {
  const LiveBuffer& buffer = lifetimes.buffers[static_cast<size_t>(
      lifetimes.buffer_of[static_cast<size_t>(*graph.Find(name))])];
  return {buffer.lower, buffer.upper};
}

TEST_CASE("an exchange lands at the first that reads what it makes") {
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value w = g.Param("w", DType::kF32, {4});
  const Value a = g.Name("a", Neg(x));                              // 0
  const Value block = g.Name("block", ReduceScatter(a, 2));         // 1
  const Value b = g.Name("b", Neg(x));                              // 2
  const Value view = Reshape(block, {1, 2});                        // 3
  const Value read = g.Name("read", Neg(view));                     // 4
  const Value own = g.Name("own", Reshape(read, {2}));              // 5
  const Value updated = g.Name("new", AllGatherUpdate(w, own, 2));  // 6
  g.Output("twice", Neg(b));                                        // 7
  g.Output("again", Neg(updated));                                  // 8
  const Graph graph = *g.Finish();
  CHECK(Landings(graph) ==
        std::vector<std::pair<NodeId, NodeId>>{{1, 4}, {6, 8}});
  // What it works on is its own until then, and scratch.
  const Lifetimes lifetimes = ComputeLifetimes(
      graph,
      {.in_place = false, .workspace = [](const Graph&, const Node& node) {
         return node.op == OpKind::kReduceScatter ? Bytes{64} : 0;
       }});
  CHECK(LifeOf(graph, lifetimes, "a") == Times{0, 5});
  CHECK(LifeOf(graph, lifetimes, "block") == Times{1, 5});
  CHECK(LifeOf(graph, lifetimes, "b") == Times{2, 8});
  CHECK(LifeOf(graph, lifetimes, "own") == Times{4, 9});
  const LiveBuffer& scratch =
      lifetimes.buffers[static_cast<size_t>(lifetimes.workspace_of[1])];
  CHECK(Times{scratch.lower, scratch.upper} == Times{1, 5});
}

TEST_CASE("an exchange that nothing reads lands as another takes its place") {
  GraphBuilder g("g");
  const Value w = g.Param("w", DType::kF32, {4});
  const Value x = g.Input("x", DType::kF32, {4});
  for (int i = 0; i < kExchangesUnderWay + 2; ++i) {
    g.Output(StrCat("y", i), AllReduce(x, 2));
  }
  g.Output("z", Neg(w));
  const Graph graph = *g.Finish();
  const auto landings = Landings(graph);
  REQUIRE(landings.size() == kExchangesUnderWay + 2);
  CHECK(landings[0].second == kExchangesUnderWay);
  CHECK(landings[1].second == kExchangesUnderWay + 1);
  for (size_t i = 2; i < landings.size(); ++i) {
    CHECK(landings[i].second == graph.num_nodes());
  }
}

// How many exchanges must have landed before each launch, where `name` lies where
// `other` does, if they are given.
std::vector<size_t> ToLand(const Graph& graph, std::string_view name = {},
                           std::string_view other = {}) {
  Plan plan = *PlanMemory(graph, {.in_place = false});
  if (!name.empty()) {
    const auto buffer = [&](std::string_view of) -> PlannedBuffer& {
      return plan.buffers[static_cast<size_t>(
          plan.buffer_of[static_cast<size_t>(*graph.Find(of))])];
    };
    buffer(name).offset = buffer(other).offset;
  }
  std::vector<std::byte> arena(static_cast<size_t>(plan.arena_bytes()));
  const Program program =
      *Program::Resolve(graph, std::move(plan), arena.data(), nullptr);
  return cpu::ExchangesToLand(program.graph(), program.launches(),
                              /*host_is_file=*/false);
}

TEST_CASE("launches wait for exchanges by the bytes where things lie") {
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value a = g.Name("a", Neg(x));
  const Value block = g.Name("block", ReduceScatter(a, 2));
  const Value b = g.Name("b", Neg(x));
  const Value sum = g.Name("sum", AllReduce(b, 2));
  const Value c = g.Name("c", Neg(x));
  g.Output("d", Neg(block));
  g.Output("e", Neg(sum));
  g.Output("c", c);
  const Graph graph = *g.Finish();
  using Counts = std::vector<size_t>;
  CHECK(ToLand(graph) == Counts{0, 0, 0, 0, 0, 1, 2});
  // c over what an exchange reads, or writes; the second lands after the first.
  CHECK(ToLand(graph, "c", "a") == Counts{0, 0, 0, 0, 1, 1, 2});
  CHECK(ToLand(graph, "c", "block") == Counts{0, 0, 0, 0, 1, 1, 2});
  CHECK(ToLand(graph, "c", "b") == Counts{0, 0, 0, 0, 2, 2, 2});
  CHECK(ToLand(graph, "b", "a") == Counts{0, 0, 1, 1, 1, 1, 2});
}

TEST_CASE("an exchange waits for one of which it reads the result") {
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value first = AllReduce(x, 2);
  g.Output("second", AllReduce(x, 2));
  g.Output("twice", AllReduce(first, 2));
  CHECK(ToLand(*g.Finish()) == std::vector<size_t>{0, 0, 1});
}

TEST_CASE("what may die in a branch waits for an exchange that reads it") {
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {4});
  const Value flag = g.Input("flag", DType::kBool, {});
  const Value a = Neg(x);
  const Value block = ReduceScatter(a, 2);
  const auto negate = [](CondBody& body) {
    return std::vector{Neg(body.operand(0))};
  };
  g.Output("y", Cond(g, flag, {a}, {negate, negate})[0]);
  g.Output("z", Neg(block));
  CHECK(ToLand(*g.Finish()) == std::vector<size_t>{0, 0, 1, 1});
}

// Tells and counts what it is asked for; fails from call `fails_at` on, and at one whose
// values begin with kWaits waits until it is let on.
class WatchedRank final : public Collectives {
 public:
  static constexpr float kWaits = -7;

  int fails_at = 1'000'000;
  std::vector<float> begins;  // the first element of each call's values
  std::atomic<bool> is_let_on{false};
  bool gave_up = false;  // waiting

  int rank() const override { return 0; }
  int ranks() const override { return 2; }
  bool AllReduce(DType, std::span<std::byte> values,
                 std::span<std::byte>) noexcept override {
    float first;
    std::memcpy(&first, values.data(), sizeof(first));
    begins.push_back(first);
    // Half a minute, then a test that would wait for ever fails.
    for (int i = 0; first == kWaits && !is_let_on; ++i) {
      if (i == 30'000) gave_up = true;
      if (gave_up) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::ssize(begins) < fails_at;
  }
  bool ReduceScatter(DType, std::span<const std::byte>, std::span<std::byte>,
                     std::span<std::byte>) noexcept override {
    return false;
  }
  bool AllGather(std::span<const std::byte>,
                 std::span<std::byte>) noexcept override {
    return false;
  }
};

WatchedRank* watched = nullptr;

Result<std::vector<TensorType>> InferSame(const OpArgs& args) {
  return std::vector<TensorType>{args.type(0)};
}
// Copies, and lets the rank on that is waited for.
StepCode RunLetOn(const Launch& launch, cpu::ThreadPool&) noexcept {
  std::memcpy(launch.outputs[0].data, launch.inputs[0].data,
              static_cast<size_t>(launch.inputs[0].type.bytes()));
  watched->is_let_on = true;
  return StepCode::kOk;
}

const OpKind kLetOn = *DefineOp("let_on_for_test", {.infer = InferSame});
const Status kLetOnRuns = cpu::DefineKernel(kLetOn, {.run = RunLetOn});

TEST_CASE("what needs nothing of an exchange runs while that is under way") {
  REQUIRE(kLetOnRuns.ok());
  for (const bool poison : {false, true}) {
    CAPTURE(poison);
    GraphBuilder g("beside");
    const Value x = g.Input("x", DType::kF32, {4});
    // The second is begun while the first waits, and waits in its turn.
    const Value first = AllReduce(MulScalar(x, -7), 2);
    const Value second = AllReduce(MulScalar(x, 3), 2);
    const Value meanwhile = Apply(kLetOn, {MulScalar(x, 5)});
    g.Output("first", first);
    g.Output("sum", Add(Add(first, second), meanwhile));
    const Graph graph = *g.Finish();
    WatchedRank rank;
    watched = &rank;
    const auto cpu = MakeCpuBackend({.threads = 1, .collectives = &rank});
    Session session = *Session::Create(
        {{"beside", graph, *PlanMemory(graph, {.device = cpu->Needs()})}}, *cpu,
        {.arena = {}, .poison = poison});
    Runner& run = session.front();
    for (int step = 1; step <= 2; ++step) {
      rank.is_let_on = false;
      REQUIRE(run.Write("x", std::vector<float>{1, 2, 3, 4}).ok());
      const StepCode code = run.Step();
      REQUIRE_MESSAGE(code == StepCode::kOk, run.Explain(code).message);
      std::vector<float> sum(4);
      REQUIRE(run.Read("sum", std::span(sum)).ok());
      CHECK(sum == std::vector<float>{1, 2, 3, 4});
    }
    CHECK_FALSE(rank.gave_up);
    CHECK(rank.begins == std::vector<float>{-7, 3, -7, 3});
  }
}

TEST_CASE("steps with exchanges allocate nothing") {
  GraphBuilder g("steps");
  const Value x = g.Input("x", DType::kF32, {4});
  for (int i = 0; i < kExchangesUnderWay + 2; ++i) {
    g.Output(StrCat("y", i), Neg(AllReduce(MulScalar(x, i), 2)));
  }
  const Graph graph = *g.Finish();
  WatchedRank rank;
  rank.begins.reserve(1000);
  const auto cpu = MakeCpuBackend({.threads = 1, .collectives = &rank});
  Session session = *Session::Create(
      {{"steps", graph, *PlanMemory(graph, {.device = cpu->Needs()})}}, *cpu);
  Runner& run = session.front();
  REQUIRE(run.Write("x", std::vector<float>(4)).ok());
  REQUIRE(run.Step() == StepCode::kOk);
  const auto before = tools::HeapAllocations();
  StepCode code = StepCode::kOk;
  for (int i = 0; i < 10 && code == StepCode::kOk; ++i) code = run.Step();
  const auto after = tools::HeapAllocations();
  CHECK(code == StepCode::kOk);
  CHECK(rank.begins.size() == 11 * (kExchangesUnderWay + 2));
  CHECK(before == after);  // nothing, where they cannot be counted
}

TEST_CASE("of exchanges under way the first that fails is told of") {
  for (const int fails_at : {1, 2, 3}) {
    CAPTURE(fails_at);
    GraphBuilder g("lost");
    const Value x = g.Input("x", DType::kF32, {4});
    for (const char* const name : {"a", "b", "c"}) {
      g.Output(name, g.Name(name, AllReduce(MulScalar(x, 2), 2)));
    }
    const Graph graph = *g.Finish();
    WatchedRank rank;
    rank.fails_at = fails_at;
    const auto cpu = MakeCpuBackend({.threads = 1, .collectives = &rank});
    Session session = *Session::Create(
        {{"train", graph, *PlanMemory(graph, {.device = cpu->Needs()})}}, *cpu);
    Runner& train = session.front();
    REQUIRE(train.Write("x", std::vector<float>(4)).ok());
    const StepCode code = train.Step();
    CHECK(code == StepCode::kRankLost);
    const std::string name(1, static_cast<char>('a' + fails_at - 1));
    CHECK(train.Explain(code).message ==
          StrCat("[session] program \"train\" failed at \"", name,
                 "\": a rank of the step was lost, or the link to it"));
    // Nothing is asked of ranks any more.
    CHECK(train.Step() == StepCode::kRankLost);
    CHECK(std::ssize(rank.begins) == fails_at);
  }
}

}  // namespace
}  // namespace stowage
