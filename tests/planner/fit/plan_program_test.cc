#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/fused.h"
#include "ir/op_def.h"
#include "ir/ops.h"
#include "planner/fit/fit.h"
#include "planner/validate_plan.h"

namespace stowage {
namespace {

// A device that has these, and whose kernels need no scratch.
PlanOptions Device(const Fusions& fusions) {
  PlanOptions options;
  options.device.fusions = fusions;
  return options;
}
PlanOptions Chains() { return Device({.elementwise = MayBeFused}); }

Graph MustFinish(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

PlannedGraph MustPlan(const Graph& graph, const PlanOptions& options) {
  Result<PlannedGraph> program = PlanProgram(graph, options);
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  CHECK(ValidatePlan(program->graph, program->plan).empty());
  return *std::move(program);
}

// The ops in order, views left out: "matmul relu".
std::string Ops(const Graph& graph) {
  std::string ops;
  for (const Node& node : graph.nodes()) {
    if (GetOpDef(node.op).is_view()) continue;
    ops += StrCat(ops.empty() ? "" : " ", OpName(node.op));
  }
  return ops;
}

// relu(exp(x w + b) * 2nd input), with the values of all roles around it.
Graph Model() {
  GraphBuilder g("model");
  const Value x = g.Input("x", DType::kF32, {4, 6});
  const Value r = g.Input("r", DType::kF32, {4, 8});
  const Value w = g.Param("w", DType::kF32, {6, 8});
  const Value b = g.Param("b", DType::kF32, {8});
  const Value sum = g.Name("sum", Add(g.Name("product", MatMul(x, w)),
                                      g.Name("row", BroadcastTo(b, {4, 8}))));
  const Value asked = g.Name("asked", Mul(Exp(sum), r));
  g.Output("asked", asked);
  g.Output("y", Reshape(g.Name("z", Relu(asked)), {32}));
  return MustFinish(g);
}

TEST_CASE("epilogues come first, then what else a device makes one node of") {
  const Graph model = Model();
  CHECK(Ops(MustPlan(model, {}).graph) == "matmul add exp mul relu");
  CHECK(Ops(MustPlan(model, Chains()).graph) == "matmul fused_elementwise");
  CHECK(
      Ops(MustPlan(model, Device({.elementwise = MayBeFused, .products = true}))
              .graph) == "fused_matmul fused_elementwise");
  CHECK(Ops(MustPlan(model, Device({.epilogues = true})).graph) ==
        "epilogue_matmul exp mul relu");
  CHECK(Ops(MustPlan(model,
                     Device({.elementwise = MayBeFused, .epilogues = true}))
                .graph) == "epilogue_matmul fused_elementwise");
}

TEST_CASE("what a caller writes and reads is there by its name and type") {
  const Graph model = Model();
  const Graph fused =
      MustPlan(model, Device({.elementwise = MayBeFused, .epilogues = true}))
          .graph;
  CHECK(fused.name() == model.name());
  for (const Role role : {Role::kInput, Role::kParam}) {
    const std::vector<ValueId> before = model.Leaves(role);
    const std::vector<ValueId> after = fused.Leaves(role);
    REQUIRE(after.size() == before.size());
    for (size_t i = 0; i < before.size(); ++i) {
      CHECK(fused.value(after[i]).name == model.value(before[i]).name);
      CHECK(fused.value(after[i]).type == model.value(before[i]).type);
    }
  }
  // One of the outputs lies within the chain, and one is a view of its end.
  REQUIRE(fused.outputs().size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const GraphOutput& before = model.outputs()[i];
    const GraphOutput& after = fused.outputs()[i];
    CHECK(after.name == before.name);
    CHECK(fused.value(after.value).type == model.value(before.value).type);
    CHECK(fused.value(after.value).name == model.value(before.value).name);
    CHECK(fused.Find(after.name) == after.value);
  }
  CHECK(model.Find("sum"));
  CHECK(fused.Find("asked"));
}

TEST_CASE("a budget is held against the fused graph") {
  GraphBuilder g("chain");
  g.Output("y", Relu(Neg(Exp(g.Input("x", DType::kF32, {64, 64})))));
  const Graph chain = MustFinish(g);
  PlanOptions options = Chains();
  options.in_place = false;  // two results are there at a time
  const Bytes apart = PlanMemory(chain, options)->arena_bytes();
  CHECK(apart == 3 * 64 * 64 * 4);
  options.budget = apart - 1;
  CHECK_FALSE(PlanMemory(chain, options).ok());
  options.budget = 2 * 64 * 64 * 4;  // x and y
  CHECK(MustPlan(chain, options).plan.arena_bytes() == *options.budget);
  --*options.budget;
  const Result<PlannedGraph> refused = PlanProgram(chain, options);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kBudgetTooSmall);
  CHECK(refused.error().message.ends_with(
      "smallest budget that works: 32.0 KiB (32768 bytes)"));
  options.budget = -1;
  CHECK(PlanProgram(chain, options)
            .error()
            .message.starts_with("[plan] budget -1 bytes is not positive"));
}

TEST_CASE("weights stay where the layout has them") {
  GraphBuilder other("other");
  other.Param("v", DType::kF32, {100});
  const Value b = other.Param("b", DType::kF32, {8});
  const Value w = other.Param("w", DType::kF32, {6, 8});
  other.Output("y", Add(ReduceSum(b), ReduceSum(w)));
  const Graph first = MustFinish(other);
  const Result<Plan> plan = PlanMemory(first);
  REQUIRE(plan.ok());
  PlanOptions options = Chains();
  options.weights = WeightLayout::FromForward(first, *plan);
  const PlannedGraph program = MustPlan(Model(), options);
  const WeightLayout again =
      WeightLayout::FromForward(program.graph, program.plan);
  for (const char* name : {"w", "b"}) {
    CHECK(again.weights().at(name).offset ==
          options.weights->weights().at(name).offset);
  }
  CHECK(again.weight_bytes() == options.weights->weight_bytes());
}

TEST_CASE("bodies of loops stay as they are") {
  GraphBuilder g("loop");
  const Value x = g.Input("x", DType::kF32, {4, 8});
  const LoopResults run =
      Loop(g, 3, {.carried = {Neg(Exp(x))}},
           [](LoopBody& body) { body.Next(0, Relu(Neg(body.carried(0)))); });
  g.Output("y", Neg(Exp(run.carried[0])));
  const Graph fused = MustPlan(MustFinish(g), Chains()).graph;
  CHECK(Ops(fused) == "fused_elementwise loop fused_elementwise");
}

}  // namespace
}  // namespace stowage
