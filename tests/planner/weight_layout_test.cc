#include <doctest/doctest.h>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "planner/plan.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"

namespace stowage {
namespace {

Graph Model(int64_t batch, std::string_view second = "w2",
            const Shape& second_shape = {32, 4}) {
  GraphBuilder g("model");
  Value x = g.Input("x", DType::kF32, {batch, 16});
  Value y = g.Input("y", DType::kI32, {batch});
  Value w1 = g.Param("w1", DType::kF32, {16, 32});
  Value w2 = g.Param(second, DType::kF32, second_shape);
  g.Output("loss", CrossEntropy(MatMul(Relu(MatMul(x, w1)), w2), y));
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return std::move(*graph);
}

Bytes AddressOf(const Graph& graph, const Plan& plan, std::string_view name) {
  const auto id = graph.Find(name);
  REQUIRE(id.has_value());
  return plan.AddressOf(plan.buffers[static_cast<size_t>(
      plan.buffer_of[static_cast<size_t>(*id)])]);
}

TEST_CASE("every program over the weights agrees on where they are") {
  const Graph forward = Model(8);
  const Plan forward_plan = *PlanMemory(forward);
  const WeightLayout weights = WeightLayout::FromForward(forward, forward_plan);

  const Graph backward = *BuildBackward(forward, "loss");
  const Graph step = *BuildTrainStep(forward, "loss");
  const Graph eval = Model(3);  // another batch size
  for (const Graph* graph : {&backward, &step, &eval}) {
    const auto plan = PlanMemory(*graph, {.weights = weights});
    REQUIRE_MESSAGE(plan.ok(), plan.error().message);
    CHECK(ValidatePlan(*graph, *plan).empty());
    CHECK(plan->regions.weights == forward_plan.regions.weights);
    for (const char* name : {"w1", "w2"}) {
      if (!graph->Find(name)) continue;  // backward reads only w2
      CHECK(AddressOf(*graph, *plan, name) ==
            AddressOf(forward, forward_plan, name));
    }
    // No activation may touch the weights, read by this program or not.
    for (const PlannedBuffer& buffer : plan->buffers) {
      if (buffer.region == Region::kWeights) continue;
      CHECK(plan->AddressOf(buffer) >= weights.weight_bytes());
    }
  }
}

TEST_CASE("a step's layout also fixes the states for programs without them") {
  const Graph forward = Model(8);
  const Graph step = *BuildTrainStep(forward, "loss", {.optimizer = AdamW{}});
  const Plan step_plan = *PlanMemory(step);
  const WeightLayout layout = WeightLayout::FromForward(step, step_plan);
  // m and v for each of two params.
  CHECK(layout.states().size() == 4);
  const Plan eval_plan = *PlanMemory(forward, {.weights = layout});
  CHECK(eval_plan.regions.state == step_plan.regions.state);
  CHECK(ValidatePlan(forward, eval_plan).empty());

  const Graph other_batch =
      *BuildTrainStep(Model(2), "loss", {.optimizer = AdamW{}});
  const Plan other = *PlanMemory(other_batch, {.weights = layout});
  CHECK(AddressOf(other_batch, other, "w1.m") ==
        AddressOf(step, step_plan, "w1.m"));
}

TEST_CASE("missing and mismatched params are errors that name them") {
  const Graph forward = Model(8);
  const WeightLayout weights =
      WeightLayout::FromForward(forward, *PlanMemory(forward));
  const auto message = [&](const Graph& graph) {
    const auto plan = PlanMemory(graph, {.weights = weights});
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code == ErrorCode::kInvalidArgument);
    return plan.error().message;
  };
  CHECK(message(Model(8, "w3")) ==
        "[plan] the weight layout has no param \"w3\" of f32(32, 4); it must "
        "come from a plan of the same model");
  CHECK(message(Model(8, "w2", {32, 5})) ==
        "[plan] param \"w2\" is f32(32, 5) here and f32(32, 4) in the weight "
        "layout; they must be equal");
}

TEST_CASE("states that the layout lacks are an error that names them") {
  const Graph forward = Model(8);
  const Graph sgd = *BuildTrainStep(forward, "loss", {.optimizer = Momentum{}});
  const WeightLayout layout = WeightLayout::FromForward(sgd, *PlanMemory(sgd));
  const Graph adamw = *BuildTrainStep(forward, "loss", {.optimizer = AdamW{}});
  const auto plan = PlanMemory(adamw, {.weights = layout});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message.find("the weight layout has no state \"w") !=
        std::string::npos);
}

TEST_CASE("a layout that is aligned less than the plan is refused") {
  const Graph forward = Model(8);
  const WeightLayout weights = WeightLayout::FromForward(
      forward, *PlanMemory(forward, {.alignment = 64}));
  const auto plan = PlanMemory(forward, {.alignment = 256, .weights = weights});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message ==
        "[plan] the weight layout is aligned to 64 bytes, this plan to 256; "
        "plan both with one alignment");
}

}  // namespace
}  // namespace stowage
