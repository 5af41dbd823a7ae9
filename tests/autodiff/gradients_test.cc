// Gradients of every differentiable row of the op table against central differences, the rules
// for kinks and ties, and gradients of loops that return their running sums.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "autodiff/vjp.h"
#include "ir/attrs.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/verify.h"
#include "tests/support/interpret.h"
#include "tests/support/op_cases.h"

namespace stowage {
namespace {

// The case with a scalar "loss": its differentiable results, each times an
// input "weight0", "weight1", ..., summed. Nothing if no result has a gradient.
std::optional<Graph> WithLoss(const OpCase& c) {
  GraphBuilder g(c.name);
  std::vector<Value> leaves;
  for (const LeafSpec& leaf : c.leaves) {
    leaves.push_back(leaf.role == Role::kState
                         ? g.State(leaf.name, leaf.dtype, leaf.shape)
                         : g.Input(leaf.name, leaf.dtype, leaf.shape));
  }
  const std::vector<Value> results = c.build(g, leaves);
  Value loss;
  for (int i = 0; i < c.differentiable; ++i) {
    const Value y = results.at(static_cast<size_t>(i));
    if (!IsFloat(y.dtype())) continue;
    const Value weight =
        g.Input("weight" + std::to_string(i), DType::kF64, y.shape());
    const Value term = ReduceSum(Mul(Cast(y, DType::kF64), weight));
    loss = loss.ok() ? Add(loss, term) : term;
  }
  if (!loss.ok()) return std::nullopt;
  g.Output("loss", loss);
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

std::vector<double> Random(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> data(size);
  for (double& x : data) x = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
  return data;
}

// What `backward` reads, from what `forward` made, and 1 for the seed.
Tensors BackwardLeaves(const Graph& backward, const Tensors& forward) {
  Tensors leaves = {{"grad:loss", {1}}};
  for (const ValueInfo& info : backward.values()) {
    if (info.is_leaf() && info.name != "grad:loss") {
      leaves[info.name] = forward.at(info.name);
    }
  }
  return leaves;
}

double Inner(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// d loss along `direction` of one leaf.
double CentralDifference(const Graph& graph, Tensors leaves,
                         const std::string& name,
                         const std::vector<double>& direction) {
  constexpr double kStep = 1e-5;
  const std::vector<double> center = leaves[name];
  double loss[2];
  for (const int side : {0, 1}) {
    for (size_t i = 0; i < center.size(); ++i) {
      leaves[name][i] = center[i] + (side == 1 ? kStep : -kStep) * direction[i];
    }
    loss[side] = Interpret(graph, leaves)["loss"][0];
  }
  return (loss[1] - loss[0]) / (2 * kStep);
}

TEST_CASE("every op has a row in the op table, and rows have unique names") {
  std::set<OpKind> covered;
  std::set<std::string> names;
  for (const OpCase& c : OpCases(DType::kF32)) {
    covered.insert(c.op);
    CHECK_MESSAGE(names.insert(c.name).second, c.name);
    const Graph graph = BuildCase(c);
    CHECK_MESSAGE(
        std::ranges::any_of(graph.nodes(),
                            [&](const Node& node) { return node.op == c.op; }),
        c.name);
  }
  covered.insert(OpKind::kStandIn);  // cannot be run
  // Are of several ranks: tests/cpu/collectives_test.cc.
  for (const OpKind op :
       {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather,
        OpKind::kAllGatherUpdate, OpKind::kOwnBlock}) {
    covered.insert(op);
  }
  // Run launches, not kernels: tests/laws/control_flow_test.cc.
  covered.insert(OpKind::kLoop);
  covered.insert(OpKind::kCond);
  for (int op = 0; op < kNumOps; ++op) {
    CHECK_MESSAGE(covered.contains(static_cast<OpKind>(op)),
                  OpName(static_cast<OpKind>(op)));
  }
}

TEST_CASE(
    "gradients of every differentiable op agree with central differences") {
  std::set<OpKind> checked;
  for (const OpCase& c : OpCases(DType::kF64)) {
    if (GetVjp(c.op).rule == nullptr) continue;
    CAPTURE(c.name);
    std::vector<std::string> wrt;
    for (const LeafSpec& leaf : c.leaves) {
      if (leaf.role == Role::kState) continue;
      if (IsFloat(leaf.dtype)) wrt.push_back(leaf.name);
    }
    const std::optional<Graph> graph = WithLoss(c);
    if (wrt.empty() || !graph) continue;
    checked.insert(c.op);

    const Result<Graph> backward = BuildBackward(*graph, "loss", {.wrt = wrt});
    REQUIRE_MESSAGE(backward.ok(), backward.error().message);
    CHECK(Verify(*backward).ok());
    const Result<Graph> linked = LinkBackward(*graph, *backward, "loss");
    REQUIRE_MESSAGE(linked.ok(), linked.error().message);

    for (const uint64_t seed : {1, 2, 3}) {
      Tensors leaves = CaseLeaves(c, seed);
      for (const ValueInfo& info : graph->values()) {
        if (info.is_leaf() && !leaves.contains(info.name)) {
          leaves[info.name] = Random(
              static_cast<size_t>(info.type.shape.num_elements()), seed + 10);
        }
      }
      const Tensors gradients = Interpret(
          *backward, BackwardLeaves(*backward, Interpret(*graph, leaves)));
      const Tensors together = Interpret(*linked, leaves);
      for (const std::string& name : wrt) {
        CAPTURE(name);
        const std::vector<double>& gradient = gradients.at("grad:" + name);
        CHECK(together.at("grad:" + name) == gradient);
        const std::vector<double> direction =
            Random(gradient.size(), seed + 20);
        const double expected =
            CentralDifference(*graph, leaves, name, direction);
        CHECK(std::abs(Inner(gradient, direction) - expected) <=
              1e-7 * std::max(1.0, std::abs(expected)));
      }
    }
  }
  checked.insert(
      OpKind::kStandIn);  // cannot be run: tests/autodiff/backward_test.cc
  // tests/laws/control_flow_test.cc
  checked.insert(OpKind::kLoop);
  checked.insert(OpKind::kCond);
  for (int i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<OpKind>(i);
    if (GetVjp(op).rule != nullptr)
      CHECK_MESSAGE(checked.contains(op), OpName(op));
  }
}

// The gradients of sum(weights * f(inputs)).
Tensors GradientsOf(Value (*f)(Value, Value), const Tensors& inputs,
                    const std::vector<double>& weights) {
  GraphBuilder g("ties");
  const auto declare = [&](const char* name) {
    const auto size = static_cast<int64_t>(inputs.at(name).size());
    return g.Input(name, DType::kF64, {size});
  };
  const Value y = f(declare("a"), declare("b"));
  const auto size = static_cast<int64_t>(weights.size());
  const Value w = g.Input("w", DType::kF64, {size});
  g.Output("loss", ReduceSum(Mul(Reshape(y, {size}), w)));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<Graph> backward =
      BuildBackward(*graph, "loss", {.wrt = {"a", "b"}});
  REQUIRE_MESSAGE(backward.ok(), backward.error().message);
  Tensors leaves = inputs;
  leaves["w"] = weights;
  return Interpret(*LinkBackward(*graph, *backward, "loss"), leaves);
}

TEST_CASE(
    "maximum and minimum share the gradient of equal operands in halves") {
  const Tensors inputs = {{"a", {1, 2, 3}}, {"b", {1, 3, 2}}};
  Tensors y = GradientsOf([](Value a, Value b) { return Maximum(a, b); },
                          inputs, {8, 10, 12});
  CHECK(y["grad:a"] == std::vector<double>{4, 0, 12});
  CHECK(y["grad:b"] == std::vector<double>{4, 10, 0});
  y = GradientsOf([](Value a, Value b) { return Minimum(a, b); }, inputs,
                  {8, 10, 12});
  CHECK(y["grad:a"] == std::vector<double>{4, 10, 0});
  CHECK(y["grad:b"] == std::vector<double>{4, 0, 12});
}

TEST_CASE("reduce_max shares the gradient equally among equal maxima") {
  // max over (2, 3): rows 5 5 1 and 0 7 2; b only joins in at factor 0.
  Tensors y = GradientsOf(
      [](Value a, Value b) {
        const Value top = ReduceMax(Reshape(a, {2, 3}), {1});
        return Add(top, MulScalar(ReduceSum(b), 0));
      },
      {{"a", {5, 5, 1, 0, 7, 2}}, {"b", {1}}}, {6, 3});
  CHECK(y["grad:a"] == std::vector<double>{3, 3, 0, 0, 3, 0});
}

TEST_CASE("max_pool gives its gradient to the first of equal maxima") {
  // Windows 5 5 and 5 1, then 2 7 and 7 7; b only joins in at factor 0.
  Tensors y = GradientsOf(
      [](Value a, Value b) {
        const Value x = Reshape(a, {2, 1, 3});
        const Value top = MaxPool(x, {.kernel = 2, .stride = 1});
        return Add(top, MulScalar(ReduceSum(b), 0));
      },
      {{"a", {5, 5, 1, 2, 7, 7}}, {"b", {1}}}, {6, 3, 10, 20});
  CHECK(y["grad:a"] == std::vector<double>{6, 3, 0, 0, 30, 0});
}

TEST_CASE("at their kinks, relu and abs have gradient zero") {
  Tensors y = GradientsOf([](Value a, Value b) { return Add(Relu(a), Abs(b)); },
                          {{"a", {0, 1, -1}}, {"b", {0, 2, -2}}}, {3, 5, 7});
  CHECK(y["grad:a"] == std::vector<double>{0, 5, 0});
  CHECK(y["grad:b"] == std::vector<double>{0, 5, -7});
}

TEST_CASE("at their kinks, other activations have the gradient of one side") {
  Tensors y = GradientsOf(
      [](Value a, Value b) { return Add(LeakyRelu(a, 0.5), Elu(b, 2, 3)); },
      {{"a", {0, 1, -1}}, {"b", {0, 2, -2}}}, {3, 5, 7});
  CHECK(y["grad:a"] == std::vector<double>{1.5, 5, 3.5});
  CHECK(y["grad:b"][0] == 18);
  CHECK(y["grad:b"][1] == 15);
  y = GradientsOf(
      [](Value a, Value b) { return Add(Clamp(a, 0, 6), HardSwish(b)); },
      {{"a", {0, 6, 5}}, {"b", {-3, 3, 0}}}, {3, 5, 7});
  CHECK(y["grad:a"] == std::vector<double>{0, 0, 7});
  CHECK(y["grad:b"] == std::vector<double>{0, 5, 3.5});
}

TEST_CASE("the gradient of a remainder's divisor is that of the whole part") {
  Tensors y = GradientsOf([](Value a, Value b) { return Remainder(a, b); },
                          {{"a", {7, -7, 6}}, {"b", {2, 2, 3}}}, {1, 1, 1});
  CHECK(y["grad:a"] == std::vector<double>{1, 1, 1});
  CHECK(y["grad:b"] == std::vector<double>{-3, 4, -2});
  y = GradientsOf([](Value a, Value b) { return Fmod(a, b); },
                  {{"a", {7, -7, 6}}, {"b", {2, 2, 3}}}, {1, 1, 1});
  CHECK(y["grad:b"] == std::vector<double>{-3, 3, -2});
}

// docs/reference/ops.md tells these limits; tests/docs/op_table.cc has the words.
TEST_CASE(
    "gradients of logarithms, roots and reciprocals are infinite at poles") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Tensors y = GradientsOf([](Value a, Value b) { return Add(Log(a), Sqrt(b)); },
                          {{"a", {0, 4}}, {"b", {0, 4}}}, {1, 8});
  CHECK(y["grad:a"] == std::vector<double>{kInf, 2});
  CHECK(y["grad:b"] == std::vector<double>{kInf, 2});
  y = GradientsOf([](Value a, Value b) { return Add(Log1p(a), b); },
                  {{"a", {-1, 1}}, {"b", {0, 0}}}, {1, 8});
  CHECK(y["grad:a"] == std::vector<double>{kInf, 4});
  y = GradientsOf([](Value a, Value b) { return Add(Rsqrt(a), Reciprocal(b)); },
                  {{"a", {0, 4}}, {"b", {0, 4}}}, {1, 16});
  CHECK(y["grad:a"] == std::vector<double>{-kInf, -1});
  CHECK(y["grad:b"] == std::vector<double>{-kInf, -1});
}

// "x" for NaN, "inf" for both infinities, else the number.
std::string Kind(double x) {
  if (std::isnan(x)) return "x";
  return std::isinf(x) ? "inf" : std::to_string(std::lround(x));
}

std::string Kinds(const std::vector<double>& numbers) {
  std::string kinds;
  for (const double x : numbers) kinds += Kind(x) + " ";
  return kinds;
}

TEST_CASE("gradients of div and pow at 0 are infinite or NaN") {
  Tensors y = GradientsOf([](Value a, Value b) { return Div(a, b); },
                          {{"a", {1, 0, 6}}, {"b", {0, 0, 2}}}, {1, 1, 4});
  CHECK(Kinds(y["grad:a"]) == "inf inf 2 ");
  CHECK(Kinds(y["grad:b"]) == "inf x -6 ");
  // 0 to powers below 1, to 1 and 2; then -2 squared.
  y = GradientsOf([](Value a, Value b) { return Pow(a, b); },
                  {{"a", {0, 0, 0, 0, 0, -2}}, {"b", {-1, 0, 0.5, 1, 2, 2}}},
                  {1, 1, 1, 1, 1, 1});
  CHECK(Kinds(y["grad:a"]) == "inf 0 inf 1 0 -4 ");
  CHECK(Kinds(y["grad:b"]) == "inf 0 0 0 0 x ");
}

// A loop that returns its running sum as a scan output too: each addend adds to the gradients of
// all later iterations.

TEST_CASE("a sum that is stacked too passes each addend what follows it") {
  constexpr DType kF64 = DType::kF64;
  GraphBuilder inner("body");
  const Value x_slice = inner.Input("x", kF64, {});
  const Value so_far = inner.Input("so_far", kF64, {});
  const Value sum = Add(so_far, x_slice);
  Result<Graph> body =
      MakeBody(inner.graph(), std::vector{x_slice.id(), so_far.id()},
               std::vector{sum.id(), sum.id()});
  REQUIRE_MESSAGE(body.ok(), body.error().message);

  GraphBuilder g("sums");
  const Value x = g.Param("x", kF64, {3});
  const Value w = g.Input("w", kF64, {3});
  const std::vector<Value> run = g.Emit(
      OpKind::kLoop, std::vector{x},
      {{"iterations", int64_t{3}},
       {"carried", int64_t{0}},
       {"sliced", int64_t{1}},
       {"summed", int64_t{1}},
       {"reverse", int64_t{0}},
       {"bodies", SubGraphs{std::make_shared<const Graph>(*std::move(body))}}});
  g.Output("loss", g.Name("loss", Add(ReduceSum(Mul(run.at(1), w)),
                                      MulScalar(run.at(0), 1000))));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const Result<Graph> backward = BuildBackward(*forward, "loss", {});
  REQUIRE_MESSAGE(backward.ok(), backward.error().message);
  const Result<Graph> linked = LinkBackward(*forward, *backward, "loss");
  REQUIRE_MESSAGE(linked.ok(), linked.error().message);
  const Tensors results =
      Interpret(*linked, {{"x", {0.5, -2, 4}}, {"w", {1, 10, 100}}});
  CHECK(results.at("loss") == std::vector<double>{0.5 - 15 + 250 + 2500});
  CHECK(results.at("grad:x") == std::vector<double>{1111, 1110, 1100});
}

}  // namespace
}  // namespace stowage
