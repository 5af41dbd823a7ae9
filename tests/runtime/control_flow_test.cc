#include "runtime/control_flow.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
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

}  // namespace
}  // namespace stowage
