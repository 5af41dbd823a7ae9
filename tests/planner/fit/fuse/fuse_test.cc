#include "planner/fit/fuse/fuse.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/fused.h"
#include "ir/ops.h"
#include "planner/validate_plan.h"

namespace stowage {
namespace {

using fit::Fuse;
using fit::Fused;

PlanOptions Device(bool products) {
  PlanOptions options;
  options.device.fusions = {.elementwise = MayBeFused, .products = products};
  return options;
}

Fused MustFuse(GraphBuilder& g, const PlanOptions& options = Device(true)) {
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Plan> plan = PlanMemory(*graph, options);
  REQUIRE(plan.ok());
  Result<Fused> fused = Fuse(*graph, *plan, options);
  REQUIRE_MESSAGE(fused.ok(), fused.error().message);
  CHECK(ValidatePlan(fused->graph, fused->plan).empty());
  CHECK(fused->plan.arena_bytes() <= plan->arena_bytes());
  CHECK((fused->changed || fused->graph.num_nodes() == graph->num_nodes()));
  return *std::move(fused);
}

// "matmul(a, b) -> y", "fused_matmul[add, relu](a, b, c) -> y z", views left out.
std::string Lines(const Graph& graph) {
  std::string lines;
  for (const Node& node : graph.nodes()) {
    if (GetOpDef(node.op).is_view()) continue;
    std::string line(OpName(node.op));
    if (node.attrs.Find("program") != nullptr) {
      line += "[" + ProgramOf(node.attrs).name() + "]";
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      line += (i == 0 ? "(" : ", ") + graph.value(node.inputs[i]).name;
    }
    line += ") ->";
    for (const ValueId id : node.results) line += " " + graph.value(id).name;
    lines += line + "\n";
  }
  return lines;
}

Value Input(GraphBuilder& g, const char* name, const Shape& shape) {
  return g.Input(name, DType::kF32, shape);
}

TEST_CASE("sums behind a product are made with it") {
  GraphBuilder g("g");
  const Value product =
      g.Name("m", MatMul(Input(g, "x", {6, 4}), Input(g, "w", {4, 8})));
  const Value bias = g.Name("row", BroadcastTo(Input(g, "b", {8}), {6, 8}));
  const Value before = g.Name("before", Add(product, bias));
  const Value after = g.Name("after", Add(Input(g, "r", {6, 8}), before));
  g.Output("y", GeluTanh(after));
  g.Output("sum", ReduceSum(after));
  const Fused fused = MustFuse(g);
  CHECK(Lines(fused.graph) ==
        "fused_matmul[add, add](x, w, row, r) -> after\n"
        "gelu_tanh(after) -> y\n"
        "reduce_sum(after) -> sum\n");
}

TEST_CASE("what something else reads, too, is kept") {
  GraphBuilder g("g");
  const Value x = g.Name("x0", Softmax(Input(g, "x", {6, 8})));
  const Value bias = g.Name("row", BroadcastTo(Input(g, "b", {8}), {6, 8}));
  const Value before = g.Name("before", Add(x, bias));
  const Value y = g.Name("y", GeluTanh(before));
  g.Output("sum", ReduceSum(y));
  g.Output("other", ReduceSum(before));
  const Fused fused = MustFuse(g);
  CHECK(Lines(fused.graph) ==
        "softmax(x) -> x0\n"
        "fused_elementwise[add, gelu_tanh](x0, row) -> y before\n"
        "reduce_sum(y) -> sum\n"
        "reduce_sum(before) -> other\n");
}

TEST_CASE("an output within a chain is kept") {
  GraphBuilder g("g");
  const Value x = g.Name("x0", Softmax(Input(g, "x", {6, 8})));
  const Value bias = g.Name("row", BroadcastTo(Input(g, "b", {8}), {6, 8}));
  const Value before = g.Name("before", Add(x, bias));
  g.Output("middle", before);
  g.Output("y", g.Name("y", GeluTanh(before)));
  const Fused fused = MustFuse(g);
  CHECK(Lines(fused.graph) ==
        "softmax(x) -> x0\n"
        "fused_elementwise[add, gelu_tanh](x0, row) -> y before\n");
  CHECK(fused.graph.outputs().size() == 2);
}

TEST_CASE("without products, what follows them is one chain") {
  GraphBuilder g("g");
  const Value product =
      g.Name("m", MatMul(Input(g, "x", {6, 4}), Input(g, "w", {4, 8})));
  const Value r = Input(g, "r", {6, 8});
  g.Output("y", Add(r, g.Name("s", Mul(product, r))));
  const Fused fused = MustFuse(g, Device(false));
  CHECK(Lines(fused.graph) ==
        "matmul(x, w) -> m\n"
        "fused_elementwise[mul, add](m, r) -> y\n");
}

TEST_CASE("without a device nothing is fused") {
  GraphBuilder g("g");
  g.Output("y", Relu(Neg(Input(g, "x", {4}))));
  CHECK(!MustFuse(g, {}).changed);
}

TEST_CASE("a chain ends where an operand is not there yet") {
  GraphBuilder g("g");
  const Value x = Input(g, "x", {6, 8});
  const Value a = g.Name("a", Relu(x));
  const Value late = g.Name("late", Softmax(x));
  g.Output("y", g.Name("y", Add(a, late)));
  CHECK(!MustFuse(g).changed);
}

TEST_CASE("a chain ends where the phase, the type or the shape does") {
  GraphBuilder g("g");
  const Value a = Relu(Input(g, "x", {6, 8}));
  g.SetOrigin(Phase::kBackward, "x");
  const Value b = Neg(a);
  const Value c = Reshape(b, {48});
  g.Output("y", Neg(Cast(Exp(c), DType::kF64)));
  CHECK(!MustFuse(g).changed);
}

TEST_CASE("a product that is read elsewhere stays as it is") {
  GraphBuilder g("g");
  const Value product =
      g.Name("m", MatMul(Input(g, "x", {6, 4}), Input(g, "w", {4, 8})));
  g.Output("y", Relu(product));
  g.Output("z", Softmax(product));
  CHECK(!MustFuse(g).changed);
}

TEST_CASE("an operand behind a product that would be copied is left aside") {
  GraphBuilder g("g");
  const Value product =
      g.Name("m", MatMul(Input(g, "x", {6, 4}), Input(g, "w", {4, 8})));
  g.Output("y", Add(product, Transpose(Input(g, "t", {8, 6}))));
  CHECK(!MustFuse(g).changed);
}

TEST_CASE("a result that is kept between takes no room that is not there") {
  // `a` dies at a softmax, before `late` is made of the last reader of `a`: kept from
  // the start on, `y` would add to the peak, where all there is is alive.
  GraphBuilder g("g");
  const Value x = Input(g, "x", {64, 64});
  const Value a = g.Name("a", Relu(x));
  const Value s = g.Name("s", Softmax(a));
  const Value t = g.Name("t", Softmax(s));
  const Value u = g.Name("u", ReduceSum(Mul(s, t)));
  g.Output("u", u);
  g.Output("y", g.Name("y", Neg(a)));
  const Fused fused = MustFuse(g);
  for (const Node& node : fused.graph.nodes()) {
    if (node.op != OpKind::kFusedElementwise) continue;
    CHECK(ProgramOf(node.attrs).name() != "relu, neg");
  }
}

TEST_CASE("gradients of q, k and v are made side by side") {
  const auto build = [](GraphBuilder& g, int axis, bool in_order) {
    const Shape shape = {2, 5, 3, 4};
    const Value q = Input(g, "q", shape);
    const Value o = Input(g, "o", shape);
    const AttentionGrads grads =
        AttentionGrad(q, Input(g, "k", shape), Input(g, "v", shape), o,
                      Input(g, "l", {2, 3, 5}), Input(g, "d_o", shape));
    const auto rows = [](Value x) { return Reshape(x, {2, 5, 12}); };
    std::vector<Value> parts = {rows(grads.dq), rows(grads.dk), rows(grads.dv)};
    if (!in_order) std::swap(parts[0], parts[1]);
    g.Output("dqkv", Concat(parts, axis));
  };
  GraphBuilder g("g");
  build(g, 2, true);
  const Fused fused = MustFuse(g);
  CHECK(Lines(fused.graph) ==
        "attention_qkv_grad(q, k, v, o, l, d_o) -> dqkv\n");
  GraphBuilder rows("g");
  build(rows, 1, true);
  CHECK(!MustFuse(rows).changed);
  GraphBuilder swapped("g");
  build(swapped, 2, false);
  CHECK(!MustFuse(swapped).changed);
}

TEST_CASE("the gradient of a norm is added to what waits for it") {
  GraphBuilder g("g");
  const Value x = Input(g, "x", {6, 8});
  const Value gamma = Input(g, "gamma", {8});
  const Value residual = g.Name("residual", Softmax(x));
  const LayerNormGrads grads =
      LayerNormGrad(x, gamma, Input(g, "mean", {6}), Input(g, "rstd", {6}), x);
  g.Name("dgamma", grads.dgamma);
  g.Name("dbeta", grads.dbeta);
  g.Output("sum", Add(residual, grads.dx));
  g.Output("dgamma", grads.dgamma);
  const Fused fused = MustFuse(g);
  CHECK(Lines(fused.graph) ==
        "softmax(x) -> residual\n"
        "layer_norm_grad_add(x, gamma, mean, rstd, x, residual) -> sum dgamma "
        "dbeta\n");
}

TEST_CASE("the gradient of a norm that is an output is left alone") {
  GraphBuilder g("g");
  const Value x = Input(g, "x", {6, 8});
  const Value gamma = Input(g, "gamma", {8});
  const Value residual = g.Name("residual", Softmax(x));
  const LayerNormGrads grads =
      LayerNormGrad(x, gamma, Input(g, "mean", {6}), Input(g, "rstd", {6}), x);
  g.Output("dx", grads.dx);
  g.Output("sum", Add(residual, grads.dx));
  CHECK(!MustFuse(g).changed);
}

TEST_CASE("a chain is no longer than may be") {
  GraphBuilder g("g");
  Value x = Input(g, "x", {16});
  for (size_t i = 0; i < kMaxFusedSteps + 3; ++i) x = Neg(x);
  g.Output("y", x);
  const Fused fused = MustFuse(g);
  REQUIRE(fused.graph.num_nodes() == 2);
  CHECK(ChainOf(ProgramOf(fused.graph.node(0).attrs)).steps().size() ==
        kMaxFusedSteps);
  CHECK(ChainOf(ProgramOf(fused.graph.node(1).attrs)).steps().size() == 3);
}

TEST_CASE("sums of more operands than there may be are several chains") {
  GraphBuilder g("g");
  Value sum = Input(g, "x0", {16});
  for (int i = 1; i <= 6; ++i) {
    sum = Add(sum, Input(g, ("x" + std::to_string(i)).c_str(), {16}));
  }
  g.Output("y", sum);
  const Fused fused = MustFuse(g);
  REQUIRE(fused.graph.num_nodes() == 2);
  CHECK(fused.graph.node(0).inputs.size() == kMaxFusedOperands);
  CHECK(fused.graph.node(1).inputs.size() == 3);
}

PlanOptions WithUpdates() {
  PlanOptions options = Device(true);
  options.device.fusions.updates = [](OpKind op) {
    return op == OpKind::kSgdUpdate;
  };
  return options;
}

Value Update(GraphBuilder& g, const char* param, const Shape& shape,
             const Value& gradient) {
  const Value lr = *g.Find("lr");
  return SgdUpdate(g.Param(param, DType::kF32, shape), gradient, lr, Value(),
                   0);
}

// The params of updates, in order, and a point for every other node.
std::string Updated(const Graph& graph) {
  std::string names;
  for (const Node& node : graph.nodes()) {
    if (GetOpDef(node.op).is_view()) continue;
    names += node.op == OpKind::kSgdUpdate
                 ? graph.value(node.inputs[0]).name + " "
                 : std::string(". ");
  }
  return names;
}

TEST_CASE("updates of small params come last, where a device joins them") {
  const auto build = [](GraphBuilder& g) {
    g.Input("lr", DType::kF32, {});
    // Leaves room for all gradients.
    g.Output("top", ReduceMax(Exp(Input(g, "huge", {512, 256}))));
    const Shape large = {128, 256};
    Update(g, "large", large, g.Name("dl", Exp(Input(g, "l", large))));
    const Value x = Input(g, "x", {8, 16});
    Update(g, "b", {16}, g.Name("db", ReduceSum(x, {0})));
    const Value y = Softmax(x, 1);
    const Value w = Update(g, "w", {8, 16}, g.Name("dw", Exp(y)));
    g.Output("used", g.Name("norm", SumSquares(w)));
    Update(g, "c", {8}, g.Name("dc", ReduceSum(y, {1})));
    g.Output("y", g.Name("max", ReduceMax(y)));
  };
  GraphBuilder g("g");
  build(g);
  // One stays where it was since it is large, and one since it is read.
  CHECK(Updated(MustFuse(g, WithUpdates()).graph) ==
        ". . . large . . . w . . . b c ");
  GraphBuilder apart("apart");
  build(apart);
  CHECK(Updated(MustFuse(apart).graph) == ". . . large . b . . w . . c . ");
}

TEST_CASE("an update stays where its gradient finds no room to the end") {
  GraphBuilder g("g");
  g.Input("lr", DType::kF32, {});
  const Value x = Input(g, "x", {16, 1024});
  Update(g, "b", {1024}, g.Name("db", ReduceSum(x, {0})));
  // All there is is alive here, and the gradient of b is not.
  const Value y = Softmax(Softmax(x, 1), 1);
  const Value dc = g.Name("dc", ReduceSum(y, {0}));
  const Value dd = g.Name("dd", ReduceSum(y, {1}));
  g.Output("y", g.Name("max", ReduceMax(y)));
  Update(g, "c", {1024}, dc);
  g.Output("z", Neg(*g.Find("lr")));
  Update(g, "d", {16}, dd);
  g.Output("a", Exp(*g.Find("lr")));
  CHECK(Updated(MustFuse(g, WithUpdates()).graph) == ". b . . . . . . . c d ");
}

}  // namespace
}  // namespace stowage
