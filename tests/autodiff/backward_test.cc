// Backward graphs: their text, what they keep, and every error.

#include "autodiff/backward.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kI32 = DType::kI32;

Graph Build(const char* name,
            const std::function<void(GraphBuilder&)>& describe) {
  GraphBuilder g(name);
  describe(g);
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

Graph Backward(const Graph& forward, const BackwardOptions& options = {}) {
  const Result<Graph> backward = BuildBackward(forward, "loss", options);
  REQUIRE_MESSAGE(backward.ok(), backward.error().message);
  return *backward;
}

std::vector<std::string> Names(const Graph& graph, Role role) {
  std::vector<std::string> names;
  for (const ValueId id : graph.Leaves(role)) {
    names.push_back(graph.value(id).name);
  }
  return names;
}

using Strings = std::vector<std::string>;

Graph Perceptron() {
  return Build("mlp", [](GraphBuilder& g) {
    const Value x = g.Input("x", kF32, {32, 64});
    const Value w1 = g.Param("w1", kF32, {64, 128}, Init::Normal(0.02));
    const Value b1 = g.Param("b1", kF32, {128});
    const Value w2 = g.Param("w2", kF32, {128, 10});
    const Value y = g.Input("y", kI32, {32});
    const Value z1 = g.Name("z1", Add(MatMul(x, w1), b1));
    const Value z2 = g.Name("z2", MatMul(g.Name("h1", Relu(z1)), w2));
    g.Output("loss", g.Name("loss", CrossEntropy(z2, y)));
  });
}

// By hand: dz2 = (softmax(z2) - onehot(y)) / 32; dw2 = h1^T dz2; dh1 = dz2
// w2^T; dz1 = dh1 where h1 > 0; db1 = dz1 summed over rows; dw1 = x^T dz1. No
// gradient of x, which nobody asked for.
TEST_CASE(
    "the backward graph of a perceptron is the one a person would write") {
  CHECK(ToText(Backward(Perceptron())) ==
        R"(stowage-ir 1
graph "mlp.backward" {
  x: f32(32, 64) = input
  w2: f32(128, 10) = param
  y: i32(32) = input
  h1: f32(32, 128) = saved
  z2: f32(32, 10) = saved
  cross_entropy_2: f32(32) = saved
  grad:loss: f32() = input
  grad:z2: f32(32, 10) gradient = cross_entropy_grad(z2, y, cross_entropy_2, grad:loss) @backward("loss")
  grad:w2: f32(128, 10) gradient = matmul(h1, grad:z2) {transpose_a=1, transpose_b=0} @backward("z2")
  grad:h1: f32(32, 128) gradient = matmul(grad:z2, w2) {transpose_a=0, transpose_b=1} @backward("z2")
  grad:z1: f32(32, 128) gradient = relu_grad(h1, grad:h1) @backward("h1")
  grad:b1: f32(128) gradient = reduce_sum(grad:z1) {axes=[0], keep=0} @backward("broadcast_1")
  grad:w1: f32(64, 128) gradient = matmul(x, grad:z1) {transpose_a=1, transpose_b=0} @backward("matmul_1")
  output "grad:w1" = grad:w1
  output "grad:b1" = grad:b1
  output "grad:w2" = grad:w2
}
)");
}

// By hand: dlogits as above; de = dlogits^T h from the product; the rows of dh
// that the lookup read are then added onto that, in place of a second table.
TEST_CASE(
    "tied embeddings accumulate onto the gradient that is already there") {
  const Graph forward = Build("tied", [](GraphBuilder& g) {
    const Value e = g.Param("e", kF32, {11, 4});
    const Value tokens = g.Input("tokens", kI32, {6});
    const Value labels = g.Input("labels", kI32, {6});
    const Value h = g.Name("h", Tanh(g.Name("rows", Gather(e, tokens))));
    const Value logits = g.Name("logits", MatMul(h, e, false, true));
    g.Output("loss", g.Name("loss", CrossEntropy(logits, labels)));
  });
  CHECK(ToText(Backward(forward)) ==
        R"(stowage-ir 1
graph "tied.backward" {
  e: f32(11, 4) = param
  tokens: i32(6) = input
  labels: i32(6) = input
  h: f32(6, 4) = saved
  logits: f32(6, 11) = saved
  cross_entropy_2: f32(6) = saved
  grad:loss: f32() = input
  grad:logits: f32(6, 11) gradient = cross_entropy_grad(logits, labels, cross_entropy_2, grad:loss) @backward("loss")
  matmul_1: f32(11, 4) = matmul(grad:logits, h) {transpose_a=1, transpose_b=0} @backward("logits")
  grad:h: f32(6, 4) gradient = matmul(grad:logits, e) {transpose_a=0, transpose_b=0} @backward("logits")
  grad:rows: f32(6, 4) gradient = tanh_grad(h, grad:h) @backward("h")
  grad:e: f32(11, 4) gradient = scatter_add(matmul_1, tokens, grad:rows) @backward("rows")
  output "grad:e" = grad:e
}
)");
}

// By hand: d exp(x) / dx is exp(x) itself; the factor 3 is a fill made again.
TEST_CASE("fills are made again, and an output is kept instead of an input") {
  const Graph forward = Build("fill", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {3});
    const Value y = g.Name("y", Exp(g.Name("x", Neg(w))));
    g.Output("loss", g.Name("loss", ReduceSum(g.Name("z", MulScalar(y, 3)))));
  });
  CHECK(ToText(Backward(forward)) == R"(stowage-ir 1
graph "fill.backward" {
  y: f32(3) = saved
  grad:loss: f32() = input
  grad:z: f32(3) gradient = broadcast(grad:loss) {shape=[3]} @backward("loss")
  fill_1: f32() = fill() {dtype=f32, shape=[], value=3.0} @backward("z")
  broadcast_2: f32(3) = broadcast(fill_1) {shape=[3]} @backward("z")
  grad:y: f32(3) gradient = mul(grad:z, broadcast_2) @backward("z")
  grad:x: f32(3) gradient = mul(grad:y, y) @backward("y")
  grad:w: f32(3) gradient = neg(grad:x) @backward("x")
  output "grad:w" = grad:w
}
)");
}

// By hand: what iota counts is the factor itself.
TEST_CASE("counted numbers are made again") {
  const Graph forward = Build("count", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {3});
    const Value z = g.Name("z", Mul(w, g.Name("n", Iota(g, kF32, 1, 2, 3))));
    g.Output("loss", g.Name("loss", ReduceSum(z)));
  });
  CHECK(ToText(Backward(forward)) == R"(stowage-ir 1
graph "count.backward" {
  grad:loss: f32() = input
  grad:z: f32(3) gradient = broadcast(grad:loss) {shape=[3]} @backward("loss")
  iota_1: f32(3) = iota() {dtype=f32, start=1.0, step=2.0, n=3} @backward("z")
  grad:w: f32(3) gradient = mul(grad:z, iota_1) @backward("z")
  output "grad:w" = grad:w
}
)");
}

TEST_CASE("a view that backward reads is taken again from its saved root") {
  const Graph forward = Build("views", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {2, 3});
    const Value h = g.Name("h", Sin(g.Input("x", kF32, {3, 8})));
    const Value micro_batch = Split(h, 1, {3, 5})[1];
    g.Output("loss", ReduceSum(MatMul(w, micro_batch)));
  });
  const Graph backward = Backward(forward);
  CHECK(Names(backward, Role::kSaved) == Strings{"h"});
  CHECK(Names(backward, Role::kInput) == Strings{"grad:loss"});
  CHECK(Names(backward, Role::kParam).empty());
  int splits = 0;
  for (const Node& node : backward.nodes()) {
    splits += node.op == OpKind::kSplit;
  }
  CHECK(splits == 1);
}

TEST_CASE("the gradient of a slice is no larger for a step past its end") {
  const Graph forward = Build("slice", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {4, 3});
    g.Output("loss", ReduceSum(Slice(w, 0, 1, 4, int64_t{1} << 61)));
  });
  const Graph backward = Backward(forward);
  for (const ValueInfo& value : backward.values()) {
    INFO(value.name);
    CHECK(value.type.shape.num_elements() <= 12);
  }
  CHECK(Interpret(backward, {{"grad:loss", {1}}}).at("grad:w") ==
        std::vector<double>{0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("each activation keeps only what its derivative is a formula of") {
  struct Row {
    Value (*op)(Value, SourceLoc);
    Strings saved;  // y = op(x)
  };
  const Row rows[] = {
      {Neg, {}},
      {Exp, {"y"}},
      {Log, {"x"}},
      {Sqrt, {"y"}},
      {Rsqrt, {"y"}},
      {Reciprocal, {"y"}},
      {Square, {"x"}},
      {Sin, {"x"}},
      {Relu, {"y"}},
      {Sigmoid, {"y"}},
      {Tanh, {"y"}},
      {Silu, {"x"}},
      {GeluTanh, {"x"}},
      {GeluErf, {"x"}},
      {Copy, {}},
      {Expm1, {"y"}},
      {Log1p, {"x"}},
      {Erf, {"x"}},
      {Softplus, {"x"}},
      {Mish, {"x"}},
      {HardSwish, {"x"}},

      {[](Value x, SourceLoc) { return LeakyRelu(x); }, {"y"}},
      {[](Value x, SourceLoc) { return Selu(x); }, {"y"}},
      {[](Value x, SourceLoc) { return HardSigmoid(x); }, {"y"}}};
  for (const Row& row : rows) {
    const Graph forward = Build("unary", [&](GraphBuilder& g) {
      const Value x = g.Name("x", MulScalar(g.Param("w", kF32, {3}), 2));
      g.Output("loss", ReduceSum(g.Name("y", row.op(x, SourceLoc::Current()))));
    });
    CHECK(Names(Backward(forward), Role::kSaved) == row.saved);
  }
}

TEST_CASE("norms keep what they normalize, gates both sides, turns nothing") {
  const auto saved = [](auto op) {
    const Graph forward = Build("transformers", [&](GraphBuilder& g) {
      const Value w = g.Param("w", kF32, {2, 3, 1, 4});
      const Value x = g.Name("x", MulScalar(w, 2));
      const Value up = g.Name("up", MulScalar(w, 3));
      const Value y = op(x, up);
      g.Output("loss", ReduceSum(g.Name("y", y)));
    });
    return Names(Backward(forward), Role::kSaved);
  };
  CHECK(saved([](Value x, Value) { return Rope(x); }) == Strings{});
  CHECK(saved([](Value x, Value up) { return SwiGlu(x, up); }) ==
        Strings{"x", "up"});
  CHECK(saved([](Value x, Value) { return LocalResponseNorm(x); }) ==
        Strings{"x"});
  const Strings norm = saved([](Value x, Value) {
    const std::vector<float> ones(4, 1);
    const Value gamma =
        Constant(*x.builder(), kF32, {4}, std::as_bytes(std::span(ones)));
    const Value operands[] = {x, gamma};
    const std::vector<Value> results =
        x.builder()->Emit(OpKind::kRmsNorm, operands, {{"eps", 1e-5}});
    x.builder()->Name("rstd", results[1]);
    return results[0];
  });
  CHECK(norm == Strings{"x", "rstd"});
}

// x normalized in `groups` of its channels, each then scaled by its gamma; or with a
// product that reads the normalized value by other operands, too.
Graph ScaledNorm(int64_t groups, bool is_read_elsewhere) {
  const Shape shape = {2, 4, 3};
  return Build("norm", [&](GraphBuilder& g) {
    const Value x = g.Name("x", MulScalar(g.Param("w", DType::kF64, shape), 2));
    const Value gamma = g.Param("gamma", DType::kF64, {4});
    const int64_t last = 12 / groups;
    const Value rows = Reshape(x, {2, groups, last});
    const std::vector<Value> results =
        g.Emit(OpKind::kLayerNorm,
               std::vector{rows, Fill(g, 1, DType::kF64, {last}),
                           Fill(g, 0, DType::kF64, {last})},
               {{"eps", 1e-5}});
    g.Name("normalized", results[0]);
    g.Name("mean", results[1]);
    g.Name("rstd", results[2]);
    const Value y = Mul(Reshape(results[0], shape),
                        BroadcastTo(Reshape(gamma, {1, 4, 1}), shape));
    Value loss = ReduceSum(Mul(y, g.Input("weight", DType::kF64, shape)));
    if (is_read_elsewhere) loss = Add(loss, ReduceSum(Square(results[0])));
    g.Output("loss", loss);
  });
}

TEST_CASE("what a norm makes is not kept for the gradient of its scale") {
  for (const int64_t groups : {1, 2, 4}) {
    const Graph forward = ScaledNorm(groups, false);
    const Graph backward = Backward(forward);
    CHECK(Names(backward, Role::kSaved) == Strings{"x", "mean", "rstd"});
    Tensors leaves = {{"gamma", {1, -2, 0.5, 3}}};
    for (int64_t i = 0; i < 24; ++i) {
      leaves["w"].push_back(std::sin(1.3 * static_cast<double>(i)));
      leaves["weight"].push_back(std::cos(2.1 * static_cast<double>(i)));
    }
    Tensors values = Interpret(forward, leaves);
    std::vector<double> expected(4);
    for (size_t i = 0; i < 24; ++i) {
      expected[i / 3 % 4] += leaves["weight"][i] * values["normalized"][i];
    }
    values["grad:loss"] = {1};
    const std::vector<double> found =
        Interpret(backward, values).at("grad:gamma");
    for (size_t c = 0; c < 4; ++c) {
      CHECK(found[c] == doctest::Approx(expected[c]).epsilon(1e-12));
    }
  }
  CHECK(Names(Backward(ScaledNorm(2, true)), Role::kSaved) ==
        Strings{"x", "normalized", "mean", "rstd"});
}

TEST_CASE("what is in a concatenation that is kept is not kept beside it") {
  // The concatenation is read by the square, its parts by their own activations.
  for (const bool is_read_elsewhere : {false, true}) {
    const Graph forward = Build("concat", [&](GraphBuilder& g) {
      const Value w = g.Param("w", DType::kF64, {2, 3});
      const Value rest = Sin(g.Input("x", DType::kF64, {256}));
      const Value first = g.Name("first", Tanh(MulScalar(w, 2)));
      const Value second = g.Name("second", Sigmoid(w));
      const Value parts[] = {first, second};
      const Value whole = g.Name("whole", Concat(parts, 1));
      Value loss = Add(ReduceSum(Square(whole)), ReduceSum(rest));
      if (is_read_elsewhere) loss = Add(loss, ReduceSum(Exp(first)));
      g.Output("loss", loss);
    });
    const Graph backward = Backward(forward);
    const Strings saved = Names(backward, Role::kSaved);
    CHECK(std::ranges::count(saved, "whole") == 1);
    CHECK(std::ranges::count(saved, "first") == (is_read_elsewhere ? 1 : 0));
    CHECK(std::ranges::count(saved, "second") == 0);
    const std::vector<double> w = {0.5, -1, 2, 0.25, -3, 1};
    Tensors values =
        Interpret(forward, {{"w", w}, {"x", std::vector<double>(256)}});
    values["grad:loss"] = {1};
    const std::vector<double> found = Interpret(backward, values).at("grad:w");
    for (size_t i = 0; i < w.size(); ++i) {
      const double t = std::tanh(2 * w[i]), s = 1 / (1 + std::exp(-w[i]));
      double expected = 4 * t * (1 - t * t) + 2 * s * s * (1 - s);
      if (is_read_elsewhere) expected += 2 * std::exp(t) * (1 - t * t);
      CHECK(found[i] == doctest::Approx(expected).epsilon(1e-12));
    }
  }
  // A sum keeps nothing of a concatenation: its parts are kept themselves. So they are
  // where a concatenation is most of what there is, which would be kept longer.
  for (const bool is_large : {false, true}) {
    const Graph forward = Build("sum", [&](GraphBuilder& g) {
      const Value w = g.Param("w", DType::kF64, {2, 3});
      const Value rest = Sin(g.Input("x", DType::kF64, {is_large ? 2 : 256}));
      const Value parts[] = {g.Name("first", Tanh(w)),
                             g.Name("second", Exp(w))};
      const Value whole = g.Name("whole", Concat(parts, 0));
      g.Output("loss", Add(ReduceSum(is_large ? Square(whole) : whole),
                           ReduceSum(rest)));
    });
    Strings expected = {"first", "second"};
    if (is_large) expected.push_back("whole");
    CHECK(Names(Backward(forward), Role::kSaved) == expected);
  }
}

TEST_CASE("an lstm keeps its gates and c, and h for the gradient of weights") {
  const Graph forward = Build("lstm", [](GraphBuilder& g) {
    const Value zeros = Fill(g, 0, kF32, {2, 4});
    const Value added = MulScalar(g.Param("inputs", kF32, {2, 3, 16}), 2);
    const Value w = g.Param("w", kF32, {16, 4});
    const std::vector<Value> results =
        g.Emit(OpKind::kLstm, std::vector{added, zeros, zeros, w},
               {{"reverse", int64_t{0}}});
    g.Name("gates", results[0]);
    g.Name("h", results[1]);
    g.Name("c", results[2]);
    g.Output("loss", ReduceSum(results[1]));
  });
  CHECK(Names(Backward(forward, {.wrt = {"inputs"}}), Role::kSaved) ==
        Strings{"gates", "c"});
  CHECK(Names(Backward(forward, {.wrt = {"inputs", "w"}}), Role::kSaved) ==
        Strings{"gates", "h", "c"});
}

TEST_CASE("the gates of an lstm have no gradient of their own") {
  const Graph forward = Build("lstm", [](GraphBuilder& g) {
    const Value zeros = Fill(g, 0, kF32, {2, 4});
    const Value added = g.Param("inputs", kF32, {2, 3, 16});
    const std::vector<Value> results =
        g.Emit(OpKind::kLstm,
               std::vector{added, zeros, zeros, g.Input("w", kF32, {16, 4})},
               {{"reverse", int64_t{0}}});
    g.Output("loss", ReduceSum(results[0]));
  });
  const Result<Graph> backward = BuildBackward(forward, "loss");
  REQUIRE_FALSE(backward.ok());
  CHECK(backward.error().message.find(
            "only h and c are differentiable, not the gates") !=
        std::string::npos);
}

TEST_CASE("attention computes the gradient of a bias where one is wanted") {
  const auto ops = [](const std::vector<std::string>& wrt) {
    const Graph forward = Build("attention", [](GraphBuilder& g) {
      const Value q = g.Input("q", kF32, {2, 5, 4, 8});
      const Value bias = g.Input("bias", kF32, {1, 4, 1, 5});
      g.Output("loss", ReduceSum(Attention(q, q, q, {.bias = bias})));
    });
    Strings names;
    const Graph backward = Backward(forward, {.wrt = wrt});
    for (const Node& node : backward.nodes()) {
      const std::string name(OpName(node.op));
      if (name.starts_with("attention")) names.push_back(name);
    }
    return names;
  };
  CHECK(ops({"q"}) == Strings{"attention_grad"});
  CHECK(ops({"bias"}) == Strings{"attention_bias_grad"});
  CHECK(ops({"q", "bias"}) == Strings{"attention_grad", "attention_bias_grad"});
}

TEST_CASE("a convolution keeps its image where filters need a gradient") {
  const auto saved = [](const char* image, const char* filters,
                        bool transposed) {
    const Graph forward = Build("conv", [&](GraphBuilder& g) {
      const auto leaf = [&](const char* name, const char* role,
                            const Shape& shape) {
        if (role == std::string("input")) return g.Input(name, kF32, shape);
        // Something that is not there at backward unless it is kept.
        return g.Name(name,
                      MulScalar(g.Param(StrCat(name, 0), kF32, shape), 2));
      };
      const Value x = leaf("x", image, {1, 2, 5});
      const Value w = leaf("w", filters, {2, 2, 3});
      g.Output("loss",
               ReduceSum(transposed ? ConvTranspose(x, w) : Conv(x, w)));
    });
    return Names(Backward(forward), Role::kSaved);
  };
  for (const bool transposed : {false, true}) {
    CHECK(saved("param", "param", transposed) == Strings{"x", "w"});
    CHECK(saved("param", "input", transposed).empty());
    CHECK(saved("input", "param", transposed).empty());
  }
}

TEST_CASE("dropout keeps no mask: backward draws it again") {
  const Graph forward = Build("dropout", [](GraphBuilder& g) {
    const Value seed = g.Input("seed", DType::kI64, {});
    const Value step = g.Input("step", DType::kI64, {});
    const Value w = g.Param("w", kF32, {5});
    g.Output("loss", ReduceSum(Dropout(Neg(w), seed, step, 0.25, 4)));
  });
  const Graph backward = Backward(forward);
  CHECK(Names(backward, Role::kSaved).empty());
  CHECK(Names(backward, Role::kInput) == Strings{"seed", "step", "grad:loss"});
}

TEST_CASE(
    "a float input can be differentiated by, and only what it needs is "
    "emitted") {
  const Graph backward = Backward(Perceptron(), {.wrt = {"x"}});
  REQUIRE(backward.outputs().size() == 1);
  CHECK(backward.outputs()[0].name == "grad:x");
  int products = 0;
  for (const Node& node : backward.nodes()) {
    products += node.op == OpKind::kMatMul;
  }
  CHECK(products == 2);  // dh1 and dx; no dw1, no dw2
}

TEST_CASE("gradients come in the order asked for") {
  const Graph backward = Backward(Perceptron(), {.wrt = {"w2", "x", "b1"}});
  Strings names;
  for (const GraphOutput& output : backward.outputs()) {
    names.push_back(output.name);
  }
  CHECK(names == Strings{"grad:w2", "grad:x", "grad:b1"});
}

TEST_CASE("values that share one gradient share one node") {
  const Graph forward = Build("sum", [](GraphBuilder& g) {
    const Value a = g.Param("a", kF32, {3});
    const Value b = g.Param("b", kF32, {3});
    g.Output("loss", ReduceSum(Square(Add(a, b))));
  });
  const Graph backward = Backward(forward);
  CHECK(backward.Find("grad:a") == backward.Find("grad:b"));
  const ValueId shared = *backward.Find("grad:a");
  CHECK(backward.value(shared).role == Role::kGradient);
}

TEST_CASE("a loss that is the param itself has gradient 1") {
  const Graph forward = Build("identity", [](GraphBuilder& g) {
    g.Output("loss", g.Param("w", kF32, {}));
  });
  const Graph backward = Backward(forward);
  CHECK(backward.num_nodes() == 0);
  CHECK(Interpret(backward, {{"grad:loss", {1}}}).at("grad:w")[0] == 1);
}

TEST_CASE("where a choice has no gradient, the rest of the sum still has") {
  // d (x * (x > 0) + x) / dx, the comparison being constant almost everywhere
  const Graph forward = Build("mask", [](GraphBuilder& g) {
    const Value x = g.Param("x", kF32, {2});
    const Value mask = Cast(Greater(x, Fill(g, 0, kF32, {})), kF32);
    g.Output("loss", ReduceSum(Add(Mul(x, mask), x)));
  });
  const Graph backward = Backward(forward);
  Tensors leaves = {{"grad:loss", {1}}};
  for (const auto& [name, value] : Interpret(forward, {{"x", {3, -3}}})) {
    leaves[name] = value;
  }
  leaves["grad:loss"] = {1};
  CHECK(Interpret(backward, leaves).at("grad:x") == std::vector<double>{2, 1});
}

TEST_CASE("building twice gives equal graphs") {
  const Graph forward = Perceptron();
  CHECK(Equal(Backward(forward), Backward(forward)));
}

// One of everything that errors are about.
Graph Mistakes() {
  return Build("mistakes", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {4});
    const Value unused = g.Param("unused", kF32, {4});
    const Value x = g.Input("x", kF32, {4});
    g.Input("labels", kI32, {4});
    g.Output("loss", g.Name("loss", ReduceSum(Mul(w, x))));
    g.Output("vector", g.Name("h", Mul(w, x)));
    g.Output("count", g.Name("count", ArgMax(w)));
    g.Output("signs", g.Name("signs", ReduceSum(Sign(w))));
    g.Output("second", ReduceSum(g.Name("slope", TanhGrad(w, x))));
    g.Output("spread", ReduceSum(g.Name("other", Mul(unused, w))));
    const Value inputs[] = {Reshape(w, {1, 4}),
                            Reshape(g.Input("l", kI32, {}), {1})};
    const std::vector<Value> entropy =
        g.Emit(OpKind::kCrossEntropy, inputs, {});
    g.Name("ce", entropy[0]);
    g.Output("statistic", ReduceSum(entropy[1]));
  });
}

TEST_CASE("every mistake has its message") {
  struct Row {
    const char* loss;
    Strings wrt;
    ErrorCode code;
    const char* message;
  };
  const Row rows[] = {
      {"los",
       {},
       ErrorCode::kNotFound,
       "[autodiff] graph \"mistakes\" has no value \"los\"; the loss is named "
       "as a value or as an output"},
      {"h",
       {},
       ErrorCode::kInvalidArgument,
       "[autodiff] the loss \"h\" is f32(4); expected a float scalar, such as "
       "a mean of it"},
      {"count",
       {},
       ErrorCode::kInvalidArgument,
       "[autodiff] the loss \"count\" is i32(); expected a float scalar, such "
       "as a mean of it"},
      {"loss",
       {"v"},
       ErrorCode::kNotFound,
       "[autodiff] graph \"mistakes\" has no param or input \"v\" to "
       "differentiate by"},
      {"loss",
       {"h"},
       ErrorCode::kInvalidArgument,
       "[autodiff] cannot differentiate by \"h\", whose role is output; "
       "expected a param or an input"},
      {"loss",
       {"labels"},
       ErrorCode::kInvalidArgument,
       "[autodiff] cannot differentiate by \"labels\", which is i32(4); "
       "expected a float type"},
      {"loss",
       {"w", "x", "w"},
       ErrorCode::kInvalidArgument,
       "[autodiff] \"w\" is named twice among those to differentiate by"},
      {"loss",
       {},
       ErrorCode::kInvalidArgument,
       "[autodiff] \"unused\" does not reach the loss \"loss\" through ops "
       "with a gradient; use it there, or leave it out of those to "
       "differentiate by"},
      {"signs",
       {"w"},
       ErrorCode::kInvalidArgument,
       "[autodiff] \"w\" does not reach the loss \"signs\" through ops with a "
       "gradient; use it there, or leave it out of those to differentiate by"},
      {"second",
       {"w"},
       ErrorCode::kUnsupported,
       "[autodiff] the way to the loss leads through \"slope\", a tanh_grad, "
       "which has no gradient: second derivatives are not provided"},
      {"statistic",
       {"w"},
       ErrorCode::kUnsupported,
       "[autodiff] the way to the loss leads through \"ce\", a cross_entropy, "
       "which has no gradient: only its loss is differentiable, not its "
       "log-sum-exp"},
  };
  const Graph graph = Mistakes();
  for (const Row& row : rows) {
    const Result<Graph> backward =
        BuildBackward(graph, row.loss, {.wrt = row.wrt});
    CAPTURE(row.message);
    REQUIRE(!backward.ok());
    CHECK(backward.error().message == row.message);
    CHECK(backward.error().code == row.code);
  }
  CHECK(BuildBackward(graph, "second", {.wrt = {"x"}}).error().message ==
        "[autodiff] the way to the loss leads through \"slope\", a tanh_grad, "
        "which has no gradient: second derivatives are not provided");
  CHECK(BuildBackward(graph, "loss", {.wrt = {"w"}}).ok());
}

TEST_CASE(
    "a seed's name that is taken is an error, even before many micro-batches") {
  const Graph forward = Build("taken", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {64});
    const std::vector<Value> micro_batches =
        Split(g.Name("grad:loss", Tanh(w)), 0, Axes(64, 1));
    g.Output("loss", ReduceMax(micro_batches[63]));
  });
  const Result<Graph> backward = BuildBackward(forward, "loss");
  REQUIRE_FALSE(backward.ok());
  CHECK(backward.error().message.find(
            "[input] the name \"grad:loss\" is taken") == 0);
}

TEST_CASE("a graph without float params wants to be told by what") {
  const Graph forward = Build("bare", [](GraphBuilder& g) {
    g.Output("loss", ReduceSum(g.Input("x", kF32, {2})));
  });
  CHECK(BuildBackward(forward, "loss").error().message ==
        "[autodiff] graph \"bare\" has no float params; name inputs to "
        "differentiate by");
  CHECK(BuildBackward(forward, "loss", {.wrt = {"x"}}).ok());
}

// What their formulas would read is not known: whatever the op reads, whether a gradient
// of it is wanted or not, and the gradients that there are of its results.
TEST_CASE("what stands in for an op has gradients that are stood in for") {
  const Graph forward = Build("planned only", [](GraphBuilder& g) {
    const Value x = g.Input("x", kF32, {5, 2});
    const Value picks = g.Input("picks", kI32, {3});
    const Value w = g.Name("double", Exp(g.Param("w", DType::kF64, {4})));
    const Value b = g.Param("b", kF32, {7, 1});
    const Shape shapes[] = {{3, 2}, {9}};
    const std::vector<Value> made =
        StandIn(std::vector{x, picks, w, b}, kF32, shapes, 4);
    g.Name("scratch", made[1]);
    g.Output("loss", g.Name("loss", ReduceSum(g.Name("y", made[0]))));
  });
  CHECK(ToText(Backward(forward)) ==
        R"(stowage-ir 1
graph "planned only.backward" {
  x: f32(5, 2) = input
  picks: i32(3) = input
  b: f32(7, 1) = param
  double: f64(4) = saved
  grad:loss: f32() = input
  grad:y: f32(3, 2) gradient = broadcast(grad:loss) {shape=[3, 2]} @backward("loss")
  grad:y.contiguous: f32(3, 2) = copy(grad:y) @backward("y")
  grad:double: f64(4) gradient = stand_in(x, picks, double, b, grad:y.contiguous) {dtype=f64, ranks=[1], dims=[4], flops=4.0} @backward("y")
  grad:b: f32(7, 1) gradient = stand_in(x, picks, double, b, grad:y.contiguous) {dtype=f32, ranks=[2], dims=[7, 1], flops=4.0} @backward("y")
  grad:w: f64(4) gradient = mul(grad:double, double) @backward("double")
  output "grad:w" = grad:w
  output "grad:b" = grad:b
}
)");
}

TEST_CASE("a graph that updates its params cannot be differentiated") {
  const Graph forward = Build("step", [](GraphBuilder& g) {
    const Value w = g.Param("w", kF32, {2});
    g.Output("loss", ReduceSum(w));
    SgdUpdate(w, g.Input("g", kF32, {2}), g.Input("lr", kF32, {}), Value(), 0);
  });
  CHECK(BuildBackward(forward, "loss").error().message ==
        "[autodiff] graph \"step\" overwrites the param \"w\" by a sgd_update; "
        "differentiate the graph without updates, or make what it writes a "
        "state");
}

}  // namespace
}  // namespace stowage
