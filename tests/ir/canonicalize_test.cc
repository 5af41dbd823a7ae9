// Canonical ops for what graphs spell out: what is found, that the values are the same in
// double precision, and what is no such expression, though it looks like one.

#include "ir/canonicalize/canonicalize.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr double kK = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr int64_t kRows = 3, kFeatures = 4;

struct Leaves {
  GraphBuilder& g;
  Value x, up, gamma, beta;
};
using Expression = std::function<Value(const Leaves&)>;
using Found = std::map<std::string, int>;

Graph GraphOf(const Expression& make) {
  GraphBuilder g("expression");
  const Leaves leaves = {g, g.Input("x", DType::kF64, {kRows, kFeatures}),
                         g.Input("up", DType::kF64, {kRows, kFeatures}),
                         g.Param("gamma", DType::kF64, {kFeatures}),
                         g.Param("beta", DType::kF64, {kFeatures})};
  g.Output("y", make(leaves));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

Tensors Inputs() {
  Tensors leaves;
  for (int64_t i = 0; i < kRows * kFeatures; ++i) {
    leaves["x"].push_back(std::sin(1.7 * static_cast<double>(i)) * 3);
    leaves["up"].push_back(std::cos(2.3 * static_cast<double>(i)));
  }
  leaves["gamma"] = {0.5, -1.5, 2, 1};
  leaves["beta"] = {0.25, 1, -0.5, 3};
  return leaves;
}

int CountOps(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes()) {
    count += node.op != OpKind::kFill && node.op != OpKind::kBroadcast ? 1 : 0;
  }
  return count;
}

// That it becomes `ops` ops, of the same values.
void CheckFound(const Expression& make, const Found& found, int ops = 1) {
  const Graph graph = GraphOf(make);
  const Result<Canonicalized> canonical = Canonicalize(graph);
  REQUIRE_MESSAGE(canonical.ok(), canonical.error().message);
  CHECK(canonical->found == found);
  CHECK(CountOps(canonical->graph) == ops);
  const std::vector<double> before = Interpret(graph, Inputs())["y"];
  const std::vector<double> after = Interpret(canonical->graph, Inputs())["y"];
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(after[i] == doctest::Approx(before[i]).epsilon(1e-9));
  }
}

void CheckKept(const Expression& make) {
  const Graph graph = GraphOf(make);
  const Result<Canonicalized> canonical = Canonicalize(graph);
  REQUIRE(canonical.ok());
  CHECK(canonical->found.empty());
  CHECK(Equal(canonical->graph, graph));
}

Value Cube(Value x) { return Mul(Mul(x, x), x); }
Value CubeByPower(Value x) {
  return Pow(x, BroadcastTo(Fill(*x.builder(), 3, x.dtype(), {}), x.shape()));
}

TEST_CASE("GELU by tanh, with its factors in any order") {
  for (const bool by_power : {false, true}) {
    const auto cube = by_power ? CubeByPower : Cube;
    // Hugging Face's NewGELUActivation.
    CheckFound(
        [&](const Leaves& l) {
          const Value inside =
              MulScalar(Add(l.x, MulScalar(cube(l.x), 0.044715)), kK);
          return Mul(MulScalar(l.x, 0.5), AddScalar(Tanh(inside), 1));
        },
        {{"gelu_tanh", 1}});
    // JAX's.
    CheckFound(
        [&](const Leaves& l) {
          const Value inside =
              MulScalar(Add(l.x, MulScalar(cube(l.x), 0.044715)), kK);
          return Mul(l.x, MulScalar(AddScalar(Tanh(inside), 1), 0.5));
        },
        {{"gelu_tanh", 1}});
  }
  // Hugging Face's FastGELUActivation.
  CheckFound(
      [](const Leaves& l) {
        const Value inside =
            Mul(MulScalar(l.x, kK),
                AddScalar(Mul(MulScalar(l.x, 0.044715), l.x), 1));
        return MulScalar(Mul(l.x, AddScalar(Tanh(inside), 1)), 0.5);
      },
      {{"gelu_tanh", 1}});
}

TEST_CASE("GELU by erf, as exporters to ONNX write it") {
  CheckFound(
      [](const Leaves& l) {
        const Value by = BroadcastTo(
            Fill(l.g, std::numbers::sqrt2, DType::kF64, {}), l.x.shape());
        return MulScalar(Mul(l.x, AddScalar(Erf(Div(l.x, by)), 1)), 0.5);
      },
      {{"gelu", 1}});
  CheckFound(
      [](const Leaves& l) {
        return Mul(MulScalar(l.x, 0.5),
                   AddScalar(Erf(MulScalar(l.x, std::numbers::sqrt2 / 2)), 1));
      },
      {{"gelu", 1}});
}

TEST_CASE("SiLU, and gates") {
  CheckFound([](const Leaves& l) { return Mul(l.x, Sigmoid(l.x)); },
             {{"silu", 1}});
  CheckFound(
      [](const Leaves& l) { return Div(l.x, AddScalar(Exp(Neg(l.x)), 1)); },
      {{"silu", 1}});
  CheckFound([](const Leaves& l) { return Mul(Silu(l.x), l.up); },
             {{"glu", 1}});
  CheckFound([](const Leaves& l) { return Mul(l.up, GeluErf(l.x)); },
             {{"glu", 1}});
  CheckFound([](const Leaves& l) { return Mul(Mul(l.x, Sigmoid(l.x)), l.up); },
             {{"silu", 1}, {"glu", 1}});
}

Value Root(Value x, double eps) {
  return AddScalar(ReduceMean(Square(x), {1}, true), eps);
}

TEST_CASE("RMS norm by hand") {
  // Llama's, of Hugging Face.
  CheckFound(
      [](const Leaves& l) {
        return Mul(l.gamma, Mul(l.x, Rsqrt(Root(l.x, 1e-5))));
      },
      {{"rms_norm", 1}});
  CheckFound(
      [](const Leaves& l) {
        return Mul(Div(l.x, Sqrt(Root(l.x, 1e-3))), l.gamma);
      },
      {{"rms_norm", 1}});
  CheckFound(
      [](const Leaves& l) {
        return Mul(l.x, Reciprocal(Sqrt(Root(l.x, 1e-6))));
      },
      {{"rms_norm", 1}});
  // Gemma's.
  CheckFound(
      [](const Leaves& l) {
        return Mul(Mul(l.x, Rsqrt(Root(l.x, 1e-6))), AddScalar(l.gamma, 1));
      },
      {{"rms_norm", 1}}, 2);
}

Value Mean(Value x) { return ReduceMean(x, {1}, true); }
Value Centered(Value x) { return Sub(x, BroadcastTo(Mean(x), x.shape())); }
Value Spread(Value x, Value like) { return BroadcastTo(x, like.shape()); }
Value Deviation(Value x, double eps) {
  return Sqrt(AddScalar(Mean(Square(Centered(x))), eps));
}

TEST_CASE("layer norm by hand") {
  // torch's export below opset 17.
  CheckFound(
      [](const Leaves& l) {
        const Value n = Div(Centered(l.x), Spread(Deviation(l.x, 1e-5), l.x));
        return Add(Mul(n, Spread(l.gamma, l.x)), Spread(l.beta, l.x));
      },
      {{"layer_norm", 2}});
  // Without gamma, without beta, without both.
  CheckFound(
      [](const Leaves& l) {
        const Value n = Div(Centered(l.x), Spread(Deviation(l.x, 1e-3), l.x));
        return Add(Spread(l.beta, l.x), n);
      },
      {{"layer_norm", 2}});
  CheckFound(
      [](const Leaves& l) {
        const Value n =
            Mul(Centered(l.x), Spread(Reciprocal(Deviation(l.x, 1e-3)), l.x));
        return Mul(Spread(l.gamma, l.x), n);
      },
      {{"layer_norm", 1}});
  CheckFound(
      [](const Leaves& l) {
        return Div(Centered(l.x), Spread(Deviation(l.x, 1e-3), l.x));
      },
      {{"layer_norm", 1}});
  // Flax's: mean(x^2) - mean(x)^2, not below 0, and sums divided by their count.
  CheckFound(
      [](const Leaves& l) {
        const auto mean = [](Value of) {
          return MulScalar(ReduceSum(of, {1}, true), 1.0 / kFeatures);
        };
        const Value m = mean(l.x);
        const Value variance = Relu(Sub(mean(Mul(l.x, l.x)), Square(m)));
        const Value by = Mul(Spread(Rsqrt(AddScalar(variance, 1e-6)), l.x),
                             Spread(l.gamma, l.x));
        return Add(Mul(Sub(l.x, Spread(m, l.x)), by), Spread(l.beta, l.x));
      },
      {{"layer_norm", 2}});
  // TensorFlow's.
  for (const bool has_gamma : {false, true}) {
    CheckFound(
        [has_gamma](const Leaves& l) {
          const Value m = Mean(l.x);
          const Value apart = Sub(l.x, Spread(m, l.x));
          const Value root = Rsqrt(AddScalar(Mean(Mul(apart, apart)), 1e-3));
          const Value by = has_gamma
                               ? Mul(Spread(root, l.x), Spread(l.gamma, l.x))
                               : Spread(root, l.x);
          const Value rest = Sub(Spread(l.beta, l.x), Mul(Spread(m, l.x), by));
          return Add(Mul(l.x, by), rest);
        },
        {{"layer_norm", 1}});
  }
}

TEST_CASE("what only looks like a layer norm is none") {
  // Another mean, another axis, another value's variance, a variance of n - 1, a shift for
  // each row, a norm that others read.
  CheckKept([](const Leaves& l) {
    const Value apart = Sub(l.x, Spread(Mean(l.up), l.x));
    return Div(apart, Spread(Deviation(l.x, 1e-5), l.x));
  });
  CheckKept([](const Leaves& l) {
    const Value m = ReduceMean(l.x, {0}, true);
    const Value apart = Sub(l.x, Spread(m, l.x));
    return Div(
        apart,
        Spread(Sqrt(AddScalar(ReduceMean(Square(apart), {0}, true), 1e-5)),
               l.x));
  });
  CheckKept([](const Leaves& l) {
    return Div(Centered(l.x), Spread(Deviation(l.up, 1e-5), l.x));
  });
  CheckKept([](const Leaves& l) {
    const Value variance = MulScalar(
        ReduceSum(Square(Centered(l.x)), {1}, true), 1.0 / (kFeatures - 1));
    return Div(Centered(l.x), Spread(Sqrt(AddScalar(variance, 1e-5)), l.x));
  });
  for (const bool of_others : {false, true}) {
    // Of another value's squares, or of another's mean.
    CheckKept([of_others](const Leaves& l) {
      const Value squares = Mul(l.x, of_others ? l.x : l.up);
      const Value m = Mean(of_others ? l.up : l.x);
      const Value variance = Relu(Sub(Mean(squares), Square(m)));
      return Mul(Centered(l.x), Spread(Rsqrt(AddScalar(variance, 1e-6)), l.x));
    });
  }
  // A sum that is divided by another number.
  CheckKept([](const Leaves& l) {
    const Value m = MulScalar(ReduceSum(l.x, {1}, true), 0.5);
    const Value apart = Sub(l.x, Spread(m, l.x));
    return Div(apart, Spread(Deviation(l.x, 1e-5), l.x));
  });
  const auto norm = [](const Leaves& l) {
    return Div(Centered(l.x), Spread(Deviation(l.x, 1e-5), l.x));
  };
  CheckFound(
      [norm](const Leaves& l) { return Add(norm(l), Spread(Mean(l.up), l.x)); },
      {{"layer_norm", 1}}, 3);
  CheckFound(
      [norm](const Leaves& l) {
        const Value n = norm(l);
        return Mul(Add(n, Spread(l.beta, l.x)), n);
      },
      {{"layer_norm", 1}}, 3);
}

TEST_CASE("softplus, mish and hard swish by hand") {
  const auto softplus = [](Value x) { return Log(AddScalar(Exp(x), 1)); };
  CheckFound([&](const Leaves& l) { return softplus(l.x); }, {{"softplus", 1}});
  CheckFound([](const Leaves& l) { return Log1p(Exp(l.x)); },
             {{"softplus", 1}});
  CheckFound([&](const Leaves& l) { return Mul(Tanh(softplus(l.x)), l.x); },
             {{"softplus", 1}, {"mish", 1}});
  CheckFound(
      [](const Leaves& l) {
        return MulScalar(Mul(l.x, Clamp(AddScalar(l.x, 3), 0, 6)), 1.0 / 6);
      },
      {{"hard_swish", 1}});
  CheckFound([](const Leaves& l) { return Mul(HardSigmoid(l.x), l.x); },
             {{"hard_swish", 1}});
  CheckKept([](const Leaves& l) { return Log(AddScalar(Exp(l.x), 2)); });
  CheckKept([](const Leaves& l) { return Mul(l.up, Tanh(Softplus(l.x))); });
  CheckKept([](const Leaves& l) {
    return MulScalar(Mul(l.x, Clamp(AddScalar(l.x, 3), 0, 5)), 1.0 / 6);
  });
  CheckKept([](const Leaves& l) {
    return Mul(HardSigmoid(l.x, 0.2, 0.5), l.x);  // Keras's
  });
}

Graph ConvOf(const Shape& x, const Shape& w, const ConvOptions& options) {
  GraphBuilder g("conv");
  const Value image = g.Input("x", DType::kF64, x);
  g.Output("y", Conv(image, g.Param("w", DType::kF64, w), options));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

TEST_CASE("filters that see all of an image are a linear layer") {
  struct Row {
    Shape x, w;
    bool is_linear;
    ConvOptions options = {};
  };
  const Row rows[] = {
      {{2, 3, 1, 1}, {4, 3, 1, 1}, true},
      {{2, 3, 1, 1}, {4, 3, 1, 1}, true, {.stride = 2}},
      {{2, 3, 2, 3}, {4, 3, 2, 3}, true},
      {{2, 3, 5}, {4, 3, 5}, true},
      {{2, 3, 2, 2}, {4, 3, 1, 1}, false},
      {{2, 3, 2, 2}, {4, 3, 1, 1}, false, {.stride = 2}},
      {{2, 3, 1, 1}, {4, 3, 1, 1}, false, {.padding = 1}},
      {{2, 3, 1, 1}, {4, 3, 1, 1}, false, {.stride = 3, .padding = 1}},
      {{2, 4, 1, 1}, {4, 2, 1, 1}, false, {.groups = 2}},
  };
  for (const Row& row : rows) {
    const Graph graph = ConvOf(row.x, row.w, row.options);
    const Result<Canonicalized> canonical = Canonicalize(graph);
    REQUIRE_MESSAGE(canonical.ok(), canonical.error().message);
    INFO(row.x.ToString(), " ", row.w.ToString());
    CHECK(canonical->found == (row.is_linear ? Found{{"linear", 1}} : Found{}));
    Tensors leaves;
    for (int64_t i = 0; i < row.x.num_elements(); ++i) {
      leaves["x"].push_back(std::sin(1.7 * static_cast<double>(i)));
    }
    for (int64_t i = 0; i < row.w.num_elements(); ++i) {
      leaves["w"].push_back(std::cos(2.3 * static_cast<double>(i)));
    }
    const std::vector<double> before = Interpret(graph, leaves)["y"];
    const std::vector<double> after = Interpret(canonical->graph, leaves)["y"];
    REQUIRE(before.size() == after.size());
    for (size_t i = 0; i < before.size(); ++i) {
      CHECK(after[i] == doctest::Approx(before[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("what only looks like one stays as it is") {
  // Another constant, another root, another operand, another axis, no eps.
  CheckKept([](const Leaves& l) {
    const Value inside = MulScalar(Add(l.x, MulScalar(Cube(l.x), 0.0447)), kK);
    return Mul(MulScalar(l.x, 0.5), AddScalar(Tanh(inside), 1));
  });
  CheckKept([](const Leaves& l) {
    return Mul(MulScalar(l.x, 0.5), AddScalar(Erf(l.x), 1));
  });
  CheckKept([](const Leaves& l) {
    return Mul(MulScalar(l.up, 0.5),
               AddScalar(Erf(MulScalar(l.x, std::numbers::sqrt2 / 2)), 1));
  });
  CheckKept([](const Leaves& l) { return Mul(l.up, Sigmoid(l.x)); });
  CheckKept(
      [](const Leaves& l) { return Mul(l.x, Sigmoid(MulScalar(l.x, 1.702))); });
  CheckKept([](const Leaves& l) { return Mul(l.up, Rsqrt(Root(l.x, 1e-5))); });
  CheckKept([](const Leaves& l) {
    return Mul(l.x, Rsqrt(AddScalar(ReduceMean(Square(l.x), {0}, true), 1e-5)));
  });
  CheckKept([](const Leaves& l) {
    return Mul(l.x, Rsqrt(ReduceMean(Square(l.x), {1}, true)));
  });
  CheckKept([](const Leaves& l) {
    const Value activated = Silu(l.x);
    return Add(Mul(activated, l.up), activated);
  });
}

TEST_CASE("what others read of an expression stays, too") {
  const Graph graph = GraphOf([](const Leaves& l) {
    const Value sigmoid = Sigmoid(l.x);
    return Add(Mul(l.x, sigmoid), sigmoid);
  });
  const Result<Canonicalized> canonical = Canonicalize(graph);
  REQUIRE(canonical.ok());
  CHECK(canonical->found == Found{{"silu", 1}});
  CHECK(CountOps(canonical->graph) == 3);
  CHECK(Interpret(canonical->graph, Inputs())["y"] ==
        Interpret(graph, Inputs())["y"]);
}

TEST_CASE("leaves, names and what is written in place stay") {
  GraphBuilder g("net");
  const Value x = g.Input("x", DType::kF64, {kRows, kFeatures});
  const Value unused = g.Param("unused", DType::kF64, {2});
  const Value kept = g.State("kept", DType::kF64, {kRows, kFeatures});
  const Value y = g.Name("activated", Mul(x, Sigmoid(x)));
  Assign(kept, MulScalar(x, 2));
  g.Output("loss", ReduceSum(y));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  REQUIRE(unused.ok());
  const Result<Canonicalized> canonical = Canonicalize(*graph);
  REQUIRE(canonical.ok());
  const Graph& made = canonical->graph;
  CHECK(made.Leaves(Role::kParam).size() == 1);
  CHECK(made.Leaves(Role::kState).size() == 1);
  const auto activated = made.Find("activated");
  REQUIRE(activated.has_value());
  CHECK(made.node(made.value(*activated).producer).op == OpKind::kSilu);
  int assigns = 0;
  for (const Node& node : made.nodes()) {
    assigns += node.op == OpKind::kAssign ? 1 : 0;
  }
  CHECK(assigns == 1);
}

// Rows of logits of a language model's head, whose matrix lies either way round.
Graph HeadAndLoss(int64_t vocabulary, bool turned, bool is_read_elsewhere) {
  GraphBuilder g("head");
  const Value x = g.Input("x", DType::kF64, {2, kRows, kFeatures});
  const Value labels = g.Input("labels", DType::kI64, {2, kRows});
  const Value w = turned ? g.Param("w", DType::kF64, {vocabulary, kFeatures})
                         : g.Param("w", DType::kF64, {kFeatures, vocabulary});
  const Value rows = Reshape(x, {2 * kRows, kFeatures});
  const Value logits = Reshape(MatMul(rows, turned ? Permute(w, {1, 0}) : w),
                               {2, kRows, vocabulary});
  g.Output("y", CrossEntropy(logits, labels));
  if (is_read_elsewhere) g.Output("largest", ReduceMax(logits, {2}));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

TEST_CASE("a large vocabulary's logits and their loss are one op") {
  constexpr int64_t kVocabulary = 8192;
  Tensors leaves;
  for (int64_t i = 0; i < 2 * kRows * kFeatures; ++i) {
    leaves["x"].push_back(std::sin(1.7 * static_cast<double>(i)));
  }
  for (int64_t i = 0; i < kVocabulary * kFeatures; ++i) {
    leaves["w"].push_back(std::cos(0.3 * static_cast<double>(i)));
  }
  leaves["labels"] = {0, 5, 8191, 17, 4000, 1};
  for (const bool turned : {true, false}) {
    const Graph graph = HeadAndLoss(kVocabulary, turned, false);
    const Result<Canonicalized> canonical = Canonicalize(graph);
    REQUIRE_MESSAGE(canonical.ok(), canonical.error().message);
    CHECK(canonical->found == Found{{"linear_cross_entropy", 1}});
    for (const Node& node : canonical->graph.nodes()) {
      CHECK(node.op != OpKind::kMatMul);
    }
    CHECK(Interpret(canonical->graph, leaves)["y"][0] ==
          doctest::Approx(Interpret(graph, leaves)["y"][0]).epsilon(1e-12));
  }
  // Logits that something else reads, and few of them.
  CHECK(Canonicalize(HeadAndLoss(kVocabulary, true, true))->found.empty());
  CHECK(Canonicalize(HeadAndLoss(kVocabulary - 1, true, false))->found.empty());
}

}  // namespace
}  // namespace stowage
