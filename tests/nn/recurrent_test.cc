#include "nn/recurrent.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "tests/support/interpret.h"
#include "train/gradient_check.h"

namespace stowage {
namespace {

constexpr int64_t kBatch = 2, kTime = 3, kIn = 4, kHidden = 3, kLayers = 2;

// What PyTorch's documentation of nn.LSTM and nn.GRU says, one number at a time.
class PlainLayer {
 public:
  PlainLayer(const Tensors& leaves, int64_t k, int64_t gates, int64_t in)
      : w_ih_(leaves.at(StrCat("rnn.weight_ih_l", k))),
        w_hh_(leaves.at(StrCat("rnn.weight_hh_l", k))),
        b_ih_(leaves.at(StrCat("rnn.bias_ih_l", k))),
        b_hh_(leaves.at(StrCat("rnn.bias_hh_l", k))),
        in_(in) {
    REQUIRE(std::ssize(w_ih_) == gates * kHidden * in);
    REQUIRE(std::ssize(w_hh_) == gates * kHidden * kHidden);
    REQUIRE(std::ssize(b_hh_) == gates * kHidden);
  }

  double FromInput(int64_t gate, int64_t unit, const double* x) const {
    return Row(w_ih_, b_ih_, gate * kHidden + unit, x, in_);
  }
  double FromState(int64_t gate, int64_t unit, const double* h) const {
    return Row(w_hh_, b_hh_, gate * kHidden + unit, h, kHidden);
  }

 private:
  static double Row(const std::vector<double>& w, const std::vector<double>& b,
                    int64_t row, const double* x, int64_t size) {
    double sum = b[static_cast<size_t>(row)];
    for (int64_t i = 0; i < size; ++i) {
      sum += w[static_cast<size_t>(row * size + i)] * x[i];
    }
    return sum;
  }

  const std::vector<double>&w_ih_, &w_hh_, &b_ih_, &b_hh_;
  const int64_t in_;
};

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

struct Plain {
  std::vector<double> y;
  std::vector<std::vector<double>> h, c;  // of each layer, at the end
};

Plain PlainRun(const Tensors& leaves, bool lstm, bool has_initial) {
  Plain run;
  run.y = leaves.at("x");
  int64_t in = kIn;
  for (int64_t k = 0; k < kLayers; ++k) {
    const PlainLayer layer(leaves, k, lstm ? 4 : 3, in);
    std::vector<double> h(kBatch * kHidden), c(kBatch * kHidden);
    if (has_initial) {
      h = leaves.at(StrCat("h", k));
      if (lstm) c = leaves.at(StrCat("c", k));
    }
    std::vector<double> y(kBatch * kTime * kHidden);
    for (int64_t b = 0; b < kBatch; ++b) {
      double* const state = &h[static_cast<size_t>(b * kHidden)];
      for (int64_t t = 0; t < kTime; ++t) {
        const double* const x =
            &run.y[static_cast<size_t>((b * kTime + t) * in)];
        std::vector<double> next(kHidden);
        for (int64_t u = 0; u < kHidden; ++u) {
          const auto i = [&](int64_t gate) {
            return layer.FromInput(gate, u, x);
          };
          const auto s = [&](int64_t gate) {
            return layer.FromState(gate, u, state);
          };
          double& out = next[static_cast<size_t>(u)];
          if (lstm) {
            double& cell = c[static_cast<size_t>(b * kHidden + u)];
            cell = Logistic(i(1) + s(1)) * cell +
                   Logistic(i(0) + s(0)) * std::tanh(i(2) + s(2));
            out = Logistic(i(3) + s(3)) * std::tanh(cell);
          } else {
            const double r = Logistic(i(0) + s(0));
            const double z = Logistic(i(1) + s(1));
            out = (1 - z) * std::tanh(i(2) + r * s(2)) + z * state[u];
          }
        }
        for (int64_t u = 0; u < kHidden; ++u) {
          state[u] = next[static_cast<size_t>(u)];
          y[static_cast<size_t>((b * kTime + t) * kHidden + u)] = state[u];
        }
      }
    }
    run.y = y;
    run.h.push_back(h);
    run.c.push_back(c);
    in = kHidden;
  }
  return run;
}

// Outputs "y", the last states "h_<k>" and "c_<k>", and a "loss" of all of them.
Graph Layers(bool lstm, bool has_initial) {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF64, {kBatch, kTime, kIn});
  std::vector<LstmState> states;
  for (int64_t k = 0; k < kLayers && has_initial; ++k) {
    const Shape shape = {kBatch, kHidden};
    states.push_back({g.Input(StrCat("h", k), DType::kF64, shape), {}});
    if (lstm) states.back().c = g.Input(StrCat("c", k), DType::kF64, shape);
  }
  LstmResults results;
  if (lstm) {
    results = Lstm(x, "rnn", kHidden, {.layers = kLayers, .initial = states});
  } else {
    std::vector<Value> initial;
    for (const LstmState& state : states) initial.push_back(state.h);
    const GruResults gru =
        Gru(x, "rnn", kHidden, {.layers = kLayers, .initial = initial});
    results.y = gru.y;
    for (const Value h : gru.last) results.last.push_back({h, {}});
  }
  Value loss = ReduceSum(Mul(results.y, results.y));
  REQUIRE(results.last.size() == kLayers);
  for (size_t k = 0; k < results.last.size(); ++k) {
    const LstmState& last = results.last[k];
    g.Output(StrCat("h_", k), last.h);
    loss = Add(loss, ReduceSum(last.h));
    if (!lstm) continue;
    g.Output(StrCat("c_", k), last.c);
    loss = Add(loss, ReduceSum(Mul(last.c, last.c)));
  }
  g.Output("y", results.y);
  g.Output("loss", loss);
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

Tensors RandomLeaves(const Graph& graph) {
  std::mt19937_64 random(7);
  Tensors leaves;
  for (const ValueInfo& info : graph.values()) {
    if (!info.is_leaf()) continue;
    for (int64_t i = 0; i < info.type.shape.num_elements(); ++i) {
      leaves[info.name].push_back(
          static_cast<double>(random() >> 11) * 0x1p-52 - 1);
    }
  }
  return leaves;
}

void CheckNear(const std::vector<double>& actual,
               const std::vector<double>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CHECK(std::abs(actual[i] - expected[i]) < 1e-13);
  }
}

TEST_CASE("lstm and gru layers are PyTorch's formulas, step by step") {
  for (const bool lstm : {true, false}) {
    for (const bool has_initial : {true, false}) {
      CAPTURE(lstm);
      CAPTURE(has_initial);
      const Graph graph = Layers(lstm, has_initial);
      const Tensors leaves = RandomLeaves(graph);
      const Tensors values = Interpret(graph, leaves);
      const Plain plain = PlainRun(leaves, lstm, has_initial);
      CheckNear(values.at("y"), plain.y);
      for (size_t k = 0; k < kLayers; ++k) {
        CheckNear(values.at(StrCat("h_", k)), plain.h[k]);
        if (lstm) CheckNear(values.at(StrCat("c_", k)), plain.c[k]);
      }
    }
  }
}

TEST_CASE("gradients of lstm and gru layers are those of differences") {
  const auto cpu = MakeCpuBackend({.threads = 1});
  for (const bool lstm : {true, false}) {
    CAPTURE(lstm);
    const auto checked =
        CheckGradients(Layers(lstm, /*has_initial=*/true), "loss", *cpu);
    REQUIRE_MESSAGE(checked.ok(), checked.error().message);
    // x, the initial states, and four params a layer.
    CHECK(checked->size() == 1 + (lstm ? 2 : 1) * kLayers + 4 * kLayers);
    for (const CheckedGradient& row : *checked) {
      CHECK(std::abs(row.gradient) > 1e-6);
    }
  }
}

TEST_CASE(
    "inputs of all steps are one product, and all steps one op or a loop") {
  const auto count = [](const Graph& graph, OpKind op) {
    return std::ranges::count(graph.nodes(), op, &Node::op);
  };
  const Graph lstm = Layers(/*lstm=*/true, /*has_initial=*/false);
  CHECK(count(lstm, OpKind::kMatMul) == kLayers);
  CHECK(count(lstm, OpKind::kLstm) == kLayers);
  const Graph gru = Layers(/*lstm=*/false, /*has_initial=*/false);
  CHECK(count(gru, OpKind::kMatMul) == kLayers);
  CHECK(count(gru, OpKind::kLoop) == kLayers);
}

TEST_CASE("params have PyTorch's names, shapes and first values") {
  GraphBuilder g("test");
  const Value x = g.Input("x", DType::kF32, {5, 7, 4});
  CHECK(Lstm(x, "lstm", 16, {.layers = 2}).y.shape() == Shape{5, 7, 16});
  CHECK(Gru(x, "gru", 9).y.shape() == Shape{5, 7, 9});
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto check = [&](std::string_view name, const Shape& shape,
                         int64_t hidden) {
    CAPTURE(std::string(name));
    const auto id = graph->Find(name);
    REQUIRE(id.has_value());
    const ValueInfo& param = graph->value(*id);
    CHECK(param.type == TensorType{DType::kF32, shape});
    CHECK(param.init ==
          Init::Uniform(1 / std::sqrt(static_cast<double>(hidden))));
  };
  check("lstm.weight_ih_l0", {64, 4}, 16);
  check("lstm.weight_hh_l0", {64, 16}, 16);
  check("lstm.bias_ih_l0", {64}, 16);
  check("lstm.bias_hh_l0", {64}, 16);
  check("lstm.weight_ih_l1", {64, 16}, 16);
  check("lstm.bias_hh_l1", {64}, 16);
  check("gru.weight_ih_l0", {27, 4}, 9);
  check("gru.weight_hh_l0", {27, 9}, 9);
  check("gru.bias_hh_l0", {27}, 9);
  CHECK(graph->Leaves(Role::kParam).size() == 12);
}

TEST_CASE("a recurrent layer of the wrong input or sizes says which") {
  // `build` gets an input of that shape, and a state of another shape than fits.
  const auto error = [](const Shape& shape, const auto& build) {
    GraphBuilder g("test");
    const Value x = g.Input("x", DType::kF32, shape);
    build(x, g.Input("s", DType::kF32, {5, 1}));
    const auto graph = g.Finish();
    REQUIRE_FALSE(graph.ok());
    return graph.error().message;
  };
  const auto contains = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  const Shape good = {5, 7, 4};
  CHECK(contains(error({5, 4}, [](Value x, Value) { Lstm(x, "rnn", 3); }),
                 "[lstm] the input of \"rnn\", \"x\", is f32(5, 4); expected "
                 "floats (batch, time, features)"));
  CHECK(contains(error(good, [](Value x, Value) { Gru(x, "rnn", 0); }),
                 "[gru] \"rnn\" has 1 layers of 0; both must be at least 1"));
  CHECK(contains(
      error(good, [](Value x, Value) { Gru(x, "rnn", 2, {.layers = -1}); }),
      "[gru] \"rnn\" has -1 layers of 2; both must be at least 1"));
  CHECK(contains(error(good,
                       [](Value x, Value s) {
                         Gru(x, "rnn", 2, {.layers = 2, .initial = {s}});
                       }),
                 "[gru] \"rnn\" has 2 layers and 1 initial states"));
  CHECK(contains(
      error(good, [](Value x, Value s) { Gru(x, "rnn", 2, {.initial = {s}}); }),
      "[gru] the initial state \"s\" of \"rnn\" is f32(5, 1); expected f32(5, "
      "2)"));
  CHECK(contains(error(good,
                       [](Value x, Value s) {
                         Lstm(x, "rnn", 1, {.initial = {LstmState{s, {}}}});
                       }),
                 "[lstm] an initial state of \"rnn\" is missing"));
}

}  // namespace
}  // namespace stowage
