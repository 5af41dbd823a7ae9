#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "planner/fit/fuse/fuse.h"
#include "planner/plan_memory.h"
#include "planner/validate_plan.h"

namespace stowage {
namespace {

using fit::Fuse;
using fit::Fused;
using fit::LateSums;
using fit::SumLate;

// A device that makes the sums of a norm over a quarter of its rows each, in scratch of its
// own where they are not results.
int64_t PartsOfNorm(const OpArgs& args) {
  const bool is_norm = args.op == OpKind::kLayerNormGrad ||
                       args.op == OpKind::kLayerNormGradAdd ||
                       args.op == OpKind::kRmsNormGrad;
  return is_norm ? 4 : 0;
}

PlanOptions Device() {
  PlanOptions options;
  options.device.fusions.sum_parts = PartsOfNorm;
  options.device.workspace = [](const Graph& graph, const Node& node) {
    OpArgsStorage storage;
    const OpArgs args = MakeOpArgs(graph, node, &storage);
    if (node.attrs.Find("parts") != nullptr) return Bytes{0};
    const auto sums = static_cast<Bytes>(node.results.size()) - 1;
    return PartsOfNorm(args) == 0 ? 0 : 4 * 4 * sums * args.shape(0).back();
  };
  return options;
}

// The graph after the pass; as it was where there was nothing to do.
Graph Late(GraphBuilder& g, const PlanOptions& options = Device()) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Plan> plan = PlanMemory(*graph, options);
  REQUIRE(plan.ok());
  Result<std::optional<LateSums>> late = SumLate(*graph, *plan, options);
  REQUIRE_MESSAGE(late.ok(), late.error().message);
  if (!*late) return *std::move(graph);
  CHECK(ValidatePlan((*late)->graph, (*late)->plan).empty());
  CHECK((*late)->plan.arena_bytes() <= plan->arena_bytes());
  return std::move((*late)->graph);
}

// "N" for a norm that makes its sums, "P" for one that leaves them, "S" and the sums of a
// sum_partials, "U" and the param of an update; other ops are points, views nothing.
std::string Story(const Graph& graph) {
  std::vector<std::string> words;
  for (const Node& node : graph.nodes()) {
    if (GetOpDef(node.op).is_view()) continue;
    std::string word = ".";
    if (node.op == OpKind::kLayerNormGrad || node.op == OpKind::kRmsNormGrad) {
      word = node.attrs.Find("parts") != nullptr ? "P" : "N";
    }
    if (node.op == OpKind::kSumPartials) {
      word = "S";
      for (const ValueId sum : node.results) {
        word += StrCat("-", graph.value(sum).name);
      }
    }
    if (node.op == OpKind::kSgdUpdate) {
      word = StrCat("U-", graph.value(node.inputs[0]).name);
    }
    words.push_back(word);
  }
  std::string story;
  for (const std::string& word : words) {
    story += StrCat(story.empty() ? "" : " ", word);
  }
  return story;
}

constexpr int64_t kRows = 64, kColumns = 32;

Value Matrix(GraphBuilder& g, const char* name, DType dtype = DType::kF32) {
  return g.Input(name, dtype, {kRows, kColumns});
}

// Leaves room for the parts of a few norms, before anything is made.
void LeaveRoom(GraphBuilder& g) {
  g.Output("top", ReduceMax(Exp(g.Input("huge", DType::kF32, {256, 256}))));
}

// The gradient of the norm of that name; its sums are "NAME.g" and "NAME.b".
LayerNormGrads Norm(GraphBuilder& g, const std::string& name, const Value& dy) {
  const DType dtype = dy.dtype();
  const LayerNormGrads grads =
      LayerNormGrad(g.Input(name + ".x", dtype, {kRows, kColumns}),
                    g.Param(name + ".gamma", dtype, {kColumns}, Init::Ones()),
                    g.Input(name + ".mean", DType::kF32, {kRows}),
                    g.Input(name + ".rstd", DType::kF32, {kRows}), dy);
  g.Name(name + ".g", grads.dgamma);
  g.Name(name + ".b", grads.dbeta);
  return grads;
}

void Update(GraphBuilder& g, const std::string& param, const Value& gradient) {
  const Value lr =
      g.Find("lr") ? *g.Find("lr") : g.Input("lr", DType::kF32, {});
  SgdUpdate(g.Param(param, gradient.dtype(), gradient.shape(), Init::Zeros()),
            gradient, lr, Value(), 0);
}

TEST_CASE("sums that wait for the end are made there, by one node") {
  GraphBuilder g("g");
  LeaveRoom(g);
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  const LayerNormGrads b = Norm(g, "b", a.dx);
  const RmsNormGrads c = RmsNormGrad(
      Matrix(g, "x"), g.Param("w", DType::kF32, {kColumns}, Init::Ones()),
      g.Input("rstd", DType::kF32, {kRows}), b.dx);
  g.Name("c.g", c.dgamma);
  g.Output("dx", Exp(c.dx));
  Update(g, "a0", a.dgamma);
  Update(g, "a1", a.dbeta);
  Update(g, "b0", b.dgamma);
  Update(g, "b1", b.dbeta);
  Update(g, "c0", c.dgamma);
  const Graph late = Late(g);
  CHECK(Story(late) ==
        ". . P P P . S-a.g-a.b-b.g-b.b-c.g U-a0 U-a1 U-b0 U-b1 U-c0");
  // What the device said, in f32 of that many rows; the sums are what they were.
  const Node& norm = late.node(2);
  CHECK(norm.attrs.Int("parts") == 4);
  CHECK(late.value(norm.results[0]).type.shape == Shape{kRows, kColumns});
  CHECK(late.value(norm.results[1]).type ==
        TensorType{DType::kF32, {4, kColumns}});
  CHECK(late.value(*late.Find("a.g")).type ==
        TensorType{DType::kF32, {kColumns}});
}

TEST_CASE(
    "a sum is there before its first reader; what comes behind has another") {
  GraphBuilder g("g");
  LeaveRoom(g);
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  const LayerNormGrads b = Norm(g, "b", a.dx);
  g.Output("squares", SumSquares(a.dbeta));
  const LayerNormGrads c = Norm(g, "c", b.dx);
  const LayerNormGrads d = Norm(g, "d", c.dx);
  g.Output("dx", Exp(d.dx));
  Update(g, "d1", d.dbeta);
  Update(g, "a0", a.dgamma);
  Update(g, "b0", b.dgamma);
  Update(g, "b1", b.dbeta);
  Update(g, "c0", c.dgamma);
  Update(g, "c1", c.dbeta);
  Update(g, "d0", d.dgamma);
  CHECK(Story(Late(g)) ==
        ". . P P S-a.g-a.b-b.g-b.b . P P . S-c.g-c.b-d.g-d.b U-d1 U-a0 U-b0 "
        "U-b1 U-c0 U-c1 U-d0");
}

TEST_CASE("updates that run as one are not parted") {
  const auto build = [](GraphBuilder& g) {
    LeaveRoom(g);
    const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
    const Value dz = g.Name("dz", ReduceSum(a.dx, {0}));
    const LayerNormGrads b = Norm(g, "b", a.dx);
    g.Output("dx", Exp(b.dx));
    Update(g, "z", dz);
    Update(g, "a0", a.dgamma);
    Update(g, "b0", b.dgamma);
  };
  GraphBuilder apart("apart");
  build(apart);
  CHECK(Story(Late(apart)) == ". . P . P . U-z S-a.g-b.g U-a0 U-b0");
  PlanOptions options = Device();
  options.device.fusions.updates = [](OpKind op) {
    return op == OpKind::kSgdUpdate;
  };
  GraphBuilder g("g");
  build(g);
  CHECK(Story(Late(g, options)) == ". . P . P . S-a.g-b.g U-z U-a0 U-b0");
}

TEST_CASE("a norm by itself stays as it is") {
  GraphBuilder g("g");
  LeaveRoom(g);
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  Update(g, "a0", a.dgamma);
  Update(g, "a1", a.dbeta);
  const LayerNormGrads b = Norm(g, "b", a.dx);
  Update(g, "b0", b.dgamma);
  Update(g, "b1", b.dbeta);
  g.Output("dx", b.dx);
  CHECK(Story(Late(g)) == ". . N U-a0 U-a1 N U-b0 U-b1");
}

TEST_CASE("sums that are outputs are made last") {
  GraphBuilder g("g");
  LeaveRoom(g);
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  const LayerNormGrads b = Norm(g, "b", a.dx);
  g.Output("a.g", a.dgamma);
  g.Output("a.b", a.dbeta);
  g.Output("b.g", b.dgamma);
  g.Output("b.b", b.dbeta);
  g.Output("dx", Exp(b.dx));
  CHECK(Story(Late(g)) == ". . P P . S-a.g-a.b-b.g-b.b");
}

TEST_CASE("what nothing reads is not summed up") {
  GraphBuilder g("g");
  LeaveRoom(g);
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  const LayerNormGrads b = Norm(g, "b", a.dx);
  const LayerNormGrads c = Norm(g, "c", b.dx);
  g.Output("dx", Exp(c.dx));
  Update(g, "b0", b.dgamma);
  Update(g, "c1", c.dbeta);
  CHECK(Story(Late(g)) == ". . P P P . S-b.g-c.b U-b0 U-c1");
}

TEST_CASE("sums of one type are made together") {
  GraphBuilder g("g");
  LeaveRoom(g);
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  const LayerNormGrads b = Norm(g, "b", Matrix(g, "half", DType::kBF16));
  const LayerNormGrads c = Norm(g, "c", a.dx);
  const LayerNormGrads d = Norm(g, "d", b.dx);
  g.Output("dx", Exp(c.dx));
  g.Output("dz", Exp(d.dx));
  for (const LayerNormGrads& grads : {a, b, c, d}) {
    g.Output(StrCat("end of ", g.info(grads.dgamma).name), Exp(grads.dgamma));
    g.Output(StrCat("end of ", g.info(grads.dbeta).name), Exp(grads.dbeta));
  }
  CHECK(Story(Late(g)) ==
        ". . P P P P . . S-a.g-a.b-c.g-c.b . . S-b.g-b.b-d.g-d.b . . . . . .");
}

TEST_CASE("parts wait where they find room: first those made last") {
  GraphBuilder g("g");
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  // All there ever is is live at b, where the parts of a would have to lie.
  const Value e = Exp(BroadcastTo(a.dx, {3, kRows, kColumns}));
  const LayerNormGrads b =
      Norm(g, "b", Reshape(Slice(e, 0, 1, 2), {kRows, kColumns}));
  const LayerNormGrads c = Norm(g, "c", b.dx);
  g.Output("dx", Exp(c.dx));
  Update(g, "a0", a.dgamma);
  Update(g, "a1", a.dbeta);
  Update(g, "b0", b.dgamma);
  Update(g, "b1", b.dbeta);
  Update(g, "c0", c.dgamma);
  Update(g, "c1", c.dbeta);
  CHECK(Story(Late(g)) ==
        "N . P P . S-b.g-b.b-c.g-c.b U-a0 U-a1 U-b0 U-b1 U-c0 U-c1");
}

TEST_CASE("without a device that leaves them, sums stay where they are") {
  GraphBuilder g("g");
  LeaveRoom(g);
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  const LayerNormGrads b = Norm(g, "b", a.dx);
  Update(g, "a0", a.dgamma);
  Update(g, "b0", b.dgamma);
  g.Output("dx", b.dx);
  CHECK(Story(Late(g, {})) == ". . N N U-a0 U-b0");
}

TEST_CASE("names that a graph has already are left to it") {
  GraphBuilder g("g");
  LeaveRoom(g);
  g.Input("a.g_parts", DType::kF32, {});
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  const LayerNormGrads b = Norm(g, "b", a.dx);
  g.Output("dx", Exp(b.dx));
  Update(g, "a0", a.dgamma);
  Update(g, "b0", b.dgamma);
  // One of its names is made later.
  g.Output("late", g.Name("b.g_parts", Exp(b.dx)));
  const Graph late = Late(g);
  CHECK(late.Find("a.g_parts_").has_value());
  CHECK(late.value(*late.Find("a.g_parts")).is_leaf());
  CHECK(late.Find("b.g_parts_").has_value());
}

TEST_CASE("a node more and a node less are a change") {
  GraphBuilder g("g");
  LeaveRoom(g);
  const LayerNormGrads a = Norm(g, "a", Matrix(g, "dy"));
  const LayerNormGrads b = Norm(g, "b", a.dx);
  g.Output("dx", Exp(Exp(b.dx)));
  Update(g, "a0", a.dgamma);
  Update(g, "b0", b.dgamma);
  const Graph graph = *g.Finish();
  PlanOptions options = Device();
  options.device.fusions.elementwise = [](OpKind op) {
    return op == OpKind::kExp;
  };
  const Plan plan = *PlanMemory(graph, options);
  const Result<Fused> fused = Fuse(graph, plan, options);
  REQUIRE(fused.ok());
  CHECK(fused->changed);
  CHECK(Story(fused->graph).find(" S-") != std::string::npos);
}

}  // namespace
}  // namespace stowage
