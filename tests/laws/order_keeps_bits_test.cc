// Law: what a step computes does not depend on the order of its nodes. Losses,
// params and states are the same to the bit in every order that the graph
// allows, the one for memory included.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "autodiff/train_step.h"
#include "cpu/cpu_backend.h"
#include "ir/graph_copy.h"
#include "nn/models.h"
#include "planner/fit/order/order.h"
#include "tests/support/instances.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_steps.h"

namespace stowage {
namespace {

using fit::FindMemoryOrder;
using fit::MakeOrderProblem;
using fit::OrderProblem;
using fit::OrderState;
using fit::PlanInMemoryOrder;
using testing::Differences;
using testing::Instances;
using testing::MakeRandomStep;
using testing::Rng;
using testing::RunSteps;

Graph MustReorder(const Graph& graph, const std::vector<int32_t>& order) {
  auto reordered = Reorder(graph, order);
  REQUIRE_MESSAGE(reordered.ok(), reordered.error().message);
  return std::move(*reordered);
}

std::vector<int32_t> AnyOrder(const OrderProblem& problem, uint64_t seed) {
  Rng rng(seed);
  OrderState state(problem);
  std::vector<int32_t> order;
  while (!state.done()) {
    const auto ready = static_cast<int64_t>(state.ready().size());
    order.push_back(state.ready()[static_cast<size_t>(rng.Below(ready))]);
    state.Run(order.back());
  }
  return order;
}

TEST_CASE("200 random steps are bit-identical in any order and in memory's") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  int reordered = 0;
  for (uint64_t seed = 0; seed < Instances(200u); ++seed) {
    INFO("seed ", seed);
    const Graph step = MakeRandomStep(seed);
    const OrderProblem problem = MakeOrderProblem(
        step, 256, {.in_place = true, .workspace = cpu->Needs().workspace});
    const auto given = RunSteps(step, *cpu, {.steps = 3, .seed = seed});
    for (const std::vector<int32_t>& order :
         {AnyOrder(problem, seed), FindMemoryOrder(problem, 200'000).order}) {
      const Graph other = MustReorder(step, order);
      reordered += !std::is_sorted(order.begin(), order.end());
      const auto run =
          RunSteps(other, *cpu, {.steps = 3, .seed = seed, .poison = true});
      CHECK(Differences(run, given) == "");
    }
  }
  CHECK(reordered > Instances(300));
}

TEST_CASE("the mlp's losses are bit-identical in the order for memory") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  const auto forward = BuildModel("mlp", ModelPurpose::kTrain);
  REQUIRE(forward.ok());
  const auto step = BuildTrainStep(*forward, "loss");
  REQUIRE(step.ok());
  const auto ordered = PlanInMemoryOrder(*step, {.device = cpu->Needs()});
  REQUIRE(ordered.ok());
  const auto given = RunSteps(*step, *cpu, {.steps = 20});
  const auto run = RunSteps(ordered->graph, *cpu, {.steps = 20});
  CHECK(!Equal(ordered->graph, *step));
  CHECK(Differences(run, given) == "");
}

}  // namespace
}  // namespace stowage
