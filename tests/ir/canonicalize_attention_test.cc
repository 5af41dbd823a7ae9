// Attention by hand becomes the op: in the forms that exporters and models leave, with the
// same values and gradients in double precision, and with no value of queries times keys.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "autodiff/backward.h"
#include "ir/builder.h"
#include "ir/canonicalize/canonicalize.h"
#include "ir/ops.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

constexpr int64_t kBatch = 2, kHeads = 4, kGroups = 2, kTokens = 5, kKeys = 5,
                  kFeatures = 3;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Params of (examples, positions, heads, features), and a bias that is an input.
struct Leaves {
  GraphBuilder& g;
  Value q, k, v;
  Value few_k, few_v;  // of fewer heads
  Value bias;          // (examples, 1, 1, keys)
};
using Expression = std::function<Value(const Leaves&)>;
using Found = std::map<std::string, int>;

Value HeadsFirst(Value x) { return Permute(x, {0, 2, 1, 3}); }

Graph GraphOf(const Expression& make) {
  GraphBuilder g("attention");
  const auto param = [&](const char* name, int64_t positions, int64_t heads) {
    return g.Param(name, DType::kF64, {kBatch, positions, heads, kFeatures});
  };
  const Leaves leaves = {g,
                         param("q", kTokens, kHeads),
                         param("k", kKeys, kHeads),
                         param("v", kKeys, kHeads),
                         param("few_k", kKeys, kGroups),
                         param("few_v", kKeys, kGroups),
                         g.Input("bias", DType::kF64, {kBatch, 1, 1, kKeys})};
  const Value y = make(leaves);
  g.Output("y", y);
  // Each element counts otherwise.
  const int64_t count = y.shape().num_elements();
  const Value rates =
      Reshape(Iota(g, DType::kF64, 0.1, 0.07, count), y.shape());
  g.Output("loss", ReduceSum(Mul(y, rates)));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *graph;
}

Tensors Inputs(const Graph& graph) {
  Tensors leaves;
  double phase = 0.3;
  for (const Role role : {Role::kParam, Role::kInput}) {
    for (const ValueId id : graph.Leaves(role)) {
      const ValueInfo& leaf = graph.value(id);
      auto& values = leaves[leaf.name];
      for (int64_t i = 0; i < leaf.type.shape.num_elements(); ++i) {
        values.push_back(std::sin(1.3 * static_cast<double>(i) + phase));
      }
      phase += 1;
    }
  }
  return leaves;
}

// All outputs of a graph and of its backward graph.
Tensors ValuesOf(const Graph& graph) {
  const Tensors inputs = Inputs(graph);
  Tensors values = Interpret(graph, inputs);
  std::vector<std::string> wrt;
  const auto unreached = FindUnreachedParams(graph, "loss");
  REQUIRE_MESSAGE(unreached.ok(), unreached.error().message);
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const std::string& name = graph.value(id).name;
    if (std::ranges::find(*unreached, name) == unreached->end()) {
      wrt.push_back(name);
    }
  }
  const auto backward = BuildBackward(graph, "loss", {.wrt = wrt});
  REQUIRE_MESSAGE(backward.ok(), backward.error().message);
  Tensors saved = values;
  saved.insert(inputs.begin(), inputs.end());
  Tensors leaves;
  for (const Role role : {Role::kParam, Role::kInput, Role::kSaved}) {
    for (const ValueId id : backward->Leaves(role)) {
      const std::string& name = backward->value(id).name;
      leaves[name] = name == GradientName("loss") ? std::vector<double>{1.0}
                                                  : saved.at(name);
    }
  }
  Tensors all;
  for (const GraphOutput& output : graph.outputs()) {
    all[output.name] = values.at(output.name);
  }
  const Tensors gradients = Interpret(*backward, leaves);
  for (const GraphOutput& output : backward->outputs()) {
    all[output.name] = gradients.at(output.name);
  }
  return all;
}

int64_t LargestValue(const Graph& graph) {
  int64_t largest = 0;
  for (const Node& node : graph.nodes()) {
    for (const ValueId id : node.results) {
      largest = std::max(largest, graph.value(id).type.shape.num_elements());
    }
  }
  return largest;
}

void CheckFound(const Expression& make,
                const Found& found = {{"attention", 1}}) {
  const Graph graph = GraphOf(make);
  const Result<Canonicalized> canonical = Canonicalize(graph);
  REQUIRE_MESSAGE(canonical.ok(), canonical.error().message);
  CHECK(canonical->found == found);
  const Tensors before = ValuesOf(graph), after = ValuesOf(canonical->graph);
  REQUIRE(before.size() == after.size());
  for (const auto& output : before) {
    CAPTURE(output.first);
    const std::vector<double>& values = output.second;
    const std::vector<double>& ours = after.at(output.first);
    REQUIRE(ours.size() == values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK(ours[i] == doctest::Approx(values[i]).epsilon(1e-9));
    }
  }
}

// That it stays as it is, for a reason that is said where it is almost attention.
void CheckKept(const Expression& make, const std::string& why) {
  const Graph graph = GraphOf(make);
  const Result<Canonicalized> canonical = Canonicalize(graph);
  REQUIRE(canonical.ok());
  CHECK(canonical->found.empty());
  REQUIRE(canonical->misses.size() == (why.empty() ? 0 : 1));
  if (!why.empty()) {
    CHECK(canonical->misses[0].starts_with("attention at \""));
    CHECK(canonical->misses[0].ends_with(": " + why));
  }
}

// That the mask is an attribute, and no part of it is left.
void CheckCausal(const Expression& make) {
  const Result<Canonicalized> canonical = Canonicalize(GraphOf(make));
  REQUIRE(canonical.ok());
  for (const Node& node : canonical->graph.nodes()) {
    CHECK(node.op != OpKind::kWhere);
    CHECK(node.op != OpKind::kConstant);
    if (node.op != OpKind::kAttention) continue;
    CHECK(node.inputs.size() == 3);
    CHECK(node.attrs.Int("causal") == 1);
  }
}

// A constant (queries, keys): zeros where the query may read, else `never`.
Value MaskOf(GraphBuilder& g, double never,
             const std::function<bool(int64_t, int64_t)>& reads,
             const Shape& shape = {kTokens, kKeys}) {
  std::vector<double> mask;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const int64_t at = i % (kTokens * kKeys);
    mask.push_back(reads(at / kKeys, at % kKeys) ? 0 : never);
  }
  return Constant(g, DType::kF64, shape, std::as_bytes(std::span(mask)));
}

bool IsPast(int64_t query, int64_t key) { return key <= query; }

Value Masked(Value scores, Value mask) {
  return Add(scores, BroadcastTo(mask, scores.shape()));
}

// As torch's exporter leaves scaled_dot_product_attention: half of the scale at q, half at
// k, k transposed by way of three axes, and zeros in place of NaN.
Value Exported(const Leaves& l, Value mask) {
  const double root = std::pow(kFeatures, -0.25);
  const Value q = MulScalar(HeadsFirst(l.q), root);
  const Value rows =
      Reshape(Copy(HeadsFirst(l.k)), {kBatch * kHeads, kKeys, kFeatures});
  const Value k = MulScalar(Reshape(Copy(Permute(rows, {0, 2, 1})),
                                    {kBatch, kHeads, kFeatures, kKeys}),
                            root);
  Value scores = MatMul(q, k);
  if (mask.ok()) scores = Masked(scores, mask);
  const Value weights = Softmax(scores);
  const Value zeros =
      BroadcastTo(Fill(l.g, 0, DType::kF64, {}), weights.shape());
  const Value guarded = Where(NotEqual(weights, weights), zeros, weights);
  return Reshape(Copy(HeadsFirst(MatMul(guarded, HeadsFirst(l.v)))),
                 {kBatch * kTokens, kHeads * kFeatures});
}

// As models write it, in eager mode.
Value Written(const Leaves& l, const std::function<Value(Value)>& masked) {
  const Value scores =
      MulScalar(MatMul(HeadsFirst(l.q), Permute(l.k, {0, 2, 3, 1})),
                1 / std::sqrt(kFeatures));
  return MatMul(Softmax(masked(scores)), HeadsFirst(l.v));
}

TEST_CASE("what torch's exporter leaves of scaled_dot_product_attention") {
  CheckFound([](const Leaves& l) { return Exported(l, {}); });
  for (const double never : {-kInfinity, -1e30}) {
    CheckFound([&](const Leaves& l) {
      return Exported(l,
                      MaskOf(l.g, never, IsPast, {kBatch, 1, kTokens, kKeys}));
    });
  }
}

TEST_CASE("a causal mask and a window of constants are not stored") {
  for (const int64_t window : {kKeys, int64_t{2}}) {
    const Graph graph = GraphOf([&](const Leaves& l) {
      return Exported(l, MaskOf(l.g, -1e30, [&](int64_t query, int64_t key) {
                        return key <= query && key > query - window;
                      }));
    });
    const Result<Canonicalized> canonical = Canonicalize(graph);
    REQUIRE(canonical.ok());
    CHECK(canonical->found == Found{{"attention", 1}});
    int constants = 0;
    for (const Node& node : canonical->graph.nodes()) {
      constants += node.op == OpKind::kConstant ? 1 : 0;
      if (node.op != OpKind::kAttention) continue;
      CHECK(node.attrs.Int("causal") == 1);
      CHECK(node.attrs.Int("window") == (window == kKeys ? 0 : window));
    }
    CHECK(constants == 0);
    CHECK(LargestValue(canonical->graph) ==
          kBatch * kTokens * kHeads * kFeatures);
  }
}

TEST_CASE("a mask that is computed of positions is one of constants") {
  // As transformers has it: for every example, by comparisons, conditions and a where.
  for (const bool is_added : {true, false}) {
    const auto make = [&](const Leaves& l) {
      return Written(l, [&](Value scores) {
        const Shape table = {kBatch, 1, kTokens, kKeys};
        const auto positions = [&](const Shape& shape) {
          std::vector<int64_t> numbers;
          for (int64_t i = 0; i < shape.num_elements(); ++i) {
            numbers.push_back(i % kTokens);
          }
          return BroadcastTo(Constant(l.g, DType::kI64, shape,
                                      std::as_bytes(std::span(numbers))),
                             table);
        };
        const Value past = LessEqual(positions({kBatch, 1, 1, kKeys}),
                                     positions({kBatch, 1, kTokens, 1}));
        const Value all = BroadcastTo(
            Cast(Fill(l.g, 1, DType::kI64, {}), DType::kBool), table);
        const Value reads = LogicalAnd(all, past);
        const auto number = [&](double x, const Shape& shape) {
          return BroadcastTo(Fill(l.g, x, DType::kF64, {}), shape);
        };
        if (is_added) {
          return Masked(scores, Where(reads, number(0, table),
                                      number(-kInfinity, table)));
        }
        return Where(BroadcastTo(reads, scores.shape()), scores,
                     number(-1e30, scores.shape()));
      });
    };
    CheckFound(make);
    CheckCausal(make);
  }
}

TEST_CASE("permutations and copies around it go") {
  const Graph graph = GraphOf([](const Leaves& l) {
    return Exported(l, MaskOf(l.g, -kInfinity, IsPast));
  });
  const Result<Canonicalized> canonical = Canonicalize(graph);
  REQUIRE(canonical.ok());
  for (const Node& node : canonical->graph.nodes()) {
    CHECK(node.op != OpKind::kPermute);
    CHECK(node.op != OpKind::kCopy);
  }
}

TEST_CASE("attention as models write it, with every kind of mask") {
  CheckFound([](const Leaves& l) {
    return Written(l, [](Value scores) { return scores; });
  });
  CheckFound([](const Leaves& l) {
    return Written(l, [&](Value scores) {
      return Masked(scores, MaskOf(l.g, -1e9, IsPast));
    });
  });
  // Of padding, which a step is given.
  CheckFound([](const Leaves& l) {
    return Written(l, [&](Value scores) { return Masked(scores, l.bias); });
  });
  // A bias of constants beside a causal mask: ALiBi's.
  CheckFound([](const Leaves& l) {
    return Written(l, [&](Value scores) {
      const Value far =
          MaskOf(l.g, -0.5, [](int64_t q, int64_t k) { return q == k; });
      return Masked(Masked(scores, far), MaskOf(l.g, -kInfinity, IsPast));
    });
  });
  // By conditions, where they hold and where they do not.
  for (const bool holds : {true, false}) {
    const auto make = [&](const Leaves& l) {
      return Written(l, [&](Value scores) {
        const Value never =
            BroadcastTo(Fill(l.g, -1e30, DType::kF64, {}), scores.shape());
        std::vector<std::byte> reads;
        for (int64_t i = 0; i < kTokens * kKeys; ++i) {
          reads.push_back(std::byte{IsPast(i / kKeys, i % kKeys) == holds});
        }
        const Value mask =
            BroadcastTo(Constant(l.g, DType::kBool, {kTokens, kKeys}, reads),
                        scores.shape());
        return holds ? Where(mask, scores, never) : Where(mask, never, scores);
      });
    };
    CheckFound(make);
    CheckCausal(make);
  }
  // A mask that no attribute says.
  CheckFound([](const Leaves& l) {
    return Written(l, [&](Value scores) {
      return Masked(scores, MaskOf(l.g, -kInfinity, [](int64_t q, int64_t k) {
                      return q == k || k == 0;
                    }));
    });
  });
}

TEST_CASE("a query that is kept from all keys by a number") {
  // Weights are those without the mask, in f32, too, whose rounding is 64 at 1e9.
  for (const double never : {-1e9, -3.4e38}) {
    GraphBuilder g("f32");
    const auto leaf = [&](const char* name) {
      return g.Param(name, DType::kF32, {1, 2, 1, 2});
    };
    const Value q = leaf("q"), k = leaf("k"), v = leaf("v");
    const Value mask = g.Input("mask", DType::kF32, {1, 1, 1, 2});
    const Value scores = MatMul(HeadsFirst(q), Permute(k, {0, 2, 3, 1}));
    const Value hidden = Add(scores, BroadcastTo(mask, scores.shape()));
    g.Output("y", MatMul(Softmax(hidden), HeadsFirst(v)));
    const Result<Graph> graph = g.Finish();
    REQUIRE(graph.ok());
    const Result<Canonicalized> canonical = Canonicalize(*graph);
    REQUIRE(canonical.ok());
    CHECK(canonical->found == Found{{"attention", 1}});
    for (const Node& node : canonical->graph.nodes()) {
      if (node.op != OpKind::kAttention) continue;
      // What the op gets has a key of 0, from which its sums are near 1.
      const Tensors values =
          Interpret(canonical->graph, {{"q", {1, 2, 3, 4}},
                                       {"k", {1, 0, 0, 1}},
                                       {"v", {1, 2, 3, 4}},
                                       {"mask", {never, never}}});
      const std::string& bias = canonical->graph.value(node.inputs[3]).name;
      CHECK(values.at(bias) == std::vector<double>{0, 0});
    }
  }
  const auto refused = [](const Expression& make, const std::string& why) {
    CheckKept(make, why);
  };
  refused(
      [](const Leaves& l) {
        return Written(l, [&](Value scores) {
          return Masked(Masked(scores, l.bias), MaskOf(l.g, -1e9, IsPast));
        });
      },
      "a mask that is given may keep a query from all earlier keys");
  refused(
      [](const Leaves& l) {
        return Written(l, [&](Value scores) {
          return Masked(scores, MaskOf(l.g, -1e9, [](int64_t q, int64_t k) {
                          return k < q;
                        }));
        });
      },
      "a mask of constants keeps a query from all keys");
  refused(
      [](const Leaves& l) {
        return Written(l, [&](Value scores) {
          const Value reads = BroadcastTo(
              Greater(l.bias, Fill(l.g, 0, DType::kF64, l.bias.shape())),
              scores.shape());
          return Where(
              reads, scores,
              BroadcastTo(Fill(l.g, -1e9, DType::kF64, {}), scores.shape()));
        });
      },
      "a condition may keep a query from all keys by a number");
}

TEST_CASE("groups of heads that read the same keys") {
  CheckFound([](const Leaves& l) {
    const auto repeated = [](Value x) {
      constexpr int64_t kTimes = kHeads / kGroups;
      const Value apart =
          Reshape(Copy(HeadsFirst(x)), {kBatch, kGroups, 1, kKeys, kFeatures});
      return Reshape(
          Copy(BroadcastTo(apart, {kBatch, kGroups, kTimes, kKeys, kFeatures})),
          {kBatch, kHeads, kKeys, kFeatures});
    };
    const Value k = Permute(repeated(l.few_k), {0, 1, 3, 2});
    const Value scores = MulScalar(MatMul(HeadsFirst(l.q), k), 0.4);
    return MatMul(Softmax(scores), repeated(l.few_v));
  });
}

TEST_CASE("heads that are cut across the positions") {
  // By views that do not divide so: of 5 positions and 4 heads.
  CheckFound([](const Leaves& l) {
    const auto cut = [](Value x) {
      return Reshape(x, {kBatch, kHeads, kTokens, kFeatures});
    };
    return MatMul(Softmax(MatMul(cut(l.q), cut(l.k), false, true)), cut(l.v));
  });
}

TEST_CASE("heads that are one axis with the examples") {
  CheckFound([](const Leaves& l) {
    const auto rows = [](Value x) {
      return Reshape(Copy(HeadsFirst(x)), {kBatch * kHeads, kKeys, kFeatures});
    };
    const Value scores = MatMul(rows(l.q), rows(l.k), false, true);
    return MatMul(Softmax(Masked(scores, MaskOf(l.g, -kInfinity, IsPast))),
                  rows(l.v));
  });
}

TEST_CASE("what is no attention stays as it is") {
  // Weights that are read elsewhere.
  CheckKept(
      [](const Leaves& l) {
        const Value weights =
            Softmax(MatMul(HeadsFirst(l.q), Permute(l.k, {0, 2, 3, 1})));
        l.g.Output("weights", weights);
        return MatMul(weights, HeadsFirst(l.v));
      },
      "");
  // A scale behind the mask, which would scale it, too.
  CheckKept(
      [](const Leaves& l) {
        return Written(l, [&](Value scores) {
          return MulScalar(Masked(scores, l.bias), 0.5);
        });
      },
      "its scores are no product times a number, plus masks");
  CheckKept(
      [](const Leaves& l) {
        return Written(l, [](Value scores) { return MulScalar(scores, -1); });
      },
      "its scale is not above 0");
  CheckKept(
      [](const Leaves& l) {
        return Written(l, [&](Value scores) {
          return Masked(Masked(scores, l.bias), l.bias);
        });
      },
      "two of its masks are no causal ones");
  // Queries of one head, beside keys of several.
  CheckKept(
      [](const Leaves& l) {
        const Value q = BroadcastTo(
            Reshape(Slice(l.few_k, 2, 0, 1), {kBatch, 1, kTokens, kFeatures}),
            {kBatch, kHeads, kTokens, kFeatures});
        return MatMul(Softmax(MatMul(q, Permute(l.k, {0, 2, 3, 1}))),
                      HeadsFirst(l.v));
      },
      "an operand is repeated along another axis than the heads");
  // One key set read by all examples.
  CheckKept(
      [](const Leaves& l) {
        const Value k = BroadcastTo(
            Reshape(Slice(l.few_k, 0, 0, 1), {1, kGroups, kFeatures, kKeys}),
            {kBatch, kGroups, kFeatures, kKeys});
        const Value scores = MatMul(HeadsFirst(l.few_v), k);
        return MatMul(Softmax(scores), HeadsFirst(l.few_v));
      },
      "an operand is repeated along another axis than the heads");
}

}  // namespace
}  // namespace stowage
