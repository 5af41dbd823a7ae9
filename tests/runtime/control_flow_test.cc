#include "runtime/control_flow.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/program.h"

namespace stowage {
namespace {

TEST_CASE("what dies in a branch is told with the bytes it had there") {
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {64});
  const Value flag = g.Input("flag", DType::kBool, {});
  const Value a = Neg(x);
  // One body reads its operand once, the other twice.
  const auto once = [](CondBody& body) {
    return std::vector{Exp(Neg(ReduceSum(body.operand(0), {0})))};
  };
  const auto twice = [](CondBody& body) {
    return std::vector{Exp(
        Add(ReduceMax(body.operand(0), {0}), ReduceSum(body.operand(0), {0})))};
  };
  g.Output("y", Cond(g, flag, {a}, {once, twice})[0]);
  Graph graph = *g.Finish();
  Plan plan = *PlanMemory(graph, {});
  std::vector<std::byte> memory(static_cast<size_t>(plan.arena_bytes()) + 64);
  auto* const arena = reinterpret_cast<std::byte*>(
      (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  const Program program =
      *Program::Resolve(std::move(graph), std::move(plan), arena, nullptr);
  const Launch& cond = program.launches().back();
  REQUIRE(cond.control != nullptr);
  const auto is_operand = [&](std::span<const std::byte> bytes) {
    const TensorView& operand = cond.inputs[1];
    return bytes.data() == operand.data && bytes.size() == 256;
  };
  for (const size_t body : {size_t{0}, size_t{1}}) {
    CAPTURE(body);
    cond.control->Place(cond, body, 0);
    std::vector<size_t> deaths;  // of the operand: behind which launches
    for (size_t i = 0; i < cond.control->launches(body).size(); ++i) {
      for (const auto& dead : cond.control->DeadAfter(body, i)) {
        if (is_operand(dead)) deaths.push_back(i);
      }
    }
    CHECK(deaths == std::vector<size_t>{body});
  }
}

TEST_CASE(
    "every iteration offloads in what its loop has of the host's memory") {
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {64});
  const Value xs = g.Input("xs", DType::kF32, {3, 64});
  const Value outer = Offload(x);
  const LoopResults run = Loop(g, 3, {.sliced = {xs}}, [](LoopBody& body) {
    const Value a = Neg(body.sliced(0));
    const Value kept = Offload(a);
    const Value wide = Exp(a);
    const Value again = Reload(kept);
    body.Sum(Mul(wide, again));
  });
  g.Output("y", Add(run.summed[0], Reload(outer)));
  Graph graph = *g.Finish();
  Plan plan = *PlanMemory(graph, {});
  REQUIRE(plan.host_bytes() == 2 * 256);
  std::vector<std::byte> memory(static_cast<size_t>(plan.arena_bytes()) + 64);
  std::vector<std::byte> host(static_cast<size_t>(plan.host_bytes()));
  const Program program = *Program::Resolve(std::move(graph), std::move(plan),
                                            memory.data(), host.data());
  const std::span<const Launch> launches = program.launches();
  REQUIRE(launches.size() == 4);  // offload, loop, reload, add
  const Launch& loop = launches[1];
  REQUIRE(loop.control != nullptr);
  const std::span<std::byte> on_host = loop.control->host_workspace();
  CHECK(on_host.data() == host.data() + 256);
  CHECK(on_host.size() == 256);
  for (int64_t iteration = 0; iteration < 3; ++iteration) {
    loop.control->Place(loop, 0, iteration);
    const Launch& offload = loop.control->launches(0)[1];
    REQUIRE(offload.op == OpKind::kOffload);
    CHECK(offload.outputs[0].data == on_host.data());
    // Whoever touches these bytes waits for the loop, and the loop for him.
    Launch writes;
    writes.outputs = offload.outputs;
    CHECK_FALSE(LaunchAccesses(loop).MayRunBeside(LaunchAccesses(writes)));
  }
  // So does nothing that lies elsewhere.
  CHECK(LaunchAccesses(loop).MayRunBeside(LaunchAccesses(launches[0])));
  // What is offloaded is dead once it has been reloaded.
  const auto dead = loop.control->DeadAfter(0, 3);
  CHECK(std::ranges::any_of(dead, [&](std::span<const std::byte> bytes) {
    return bytes.data() == on_host.data();
  }));
}

}  // namespace
}  // namespace stowage
