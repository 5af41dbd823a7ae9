// Attention on the CPU at sizes that reach every tile, with masks, lengths and biases.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/instances.h"

namespace stowage {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
// Probabilities may be rounded to bf16 before they are multiplied.
constexpr Precision kBf16 = {DType::kBF16, 0x1p-6};

TEST_CASE("attention over tiles, head groups and odd head sizes") {
  struct Case {
    int64_t batch, length, heads, key_heads, depth;
  };
  for (const Precision p : {kF32, kF64, kBf16}) {
    for (const Case c : {Case{2, 1, 2, 2, 3}, Case{1, 5, 2, 1, 8},
                         Case{2, 64, 3, 3, 32}, Case{1, 65, 4, 2, 33},
                         Case{2, 150, 4, 1, 20}, Case{1, 200, 2, 2, 64}}) {
      CheckGraph(
          StrCat("attention of length ", c.length), p.tolerance,
          [&](GraphBuilder& g) {
            const Shape q_shape{c.batch, c.length, c.heads, c.depth};
            const int64_t all = c.heads + 2 * c.key_heads;
            // One packed operand, as a model's projection gives.
            const std::vector<Value> qkv = Split(
                g.Input("qkv", p.dtype, {c.batch, c.length, all, c.depth}), 2,
                {c.heads, c.key_heads, c.key_heads});
            const AttentionOptions options = {.scale = 0.5, .causal = true};
            const auto results = g.Emit(OpKind::kAttention, qkv,
                                        Attrs{{"scale", 0.5},
                                              {"causal", int64_t{1}},
                                              {"window", int64_t{0}}});
            g.Output("o", results[0]);
            g.Output("lse", results[1]);
            const AttentionGrads grads =
                AttentionGrad(qkv[0], qkv[1], qkv[2], results[0], results[1],
                              g.Input("d_o", p.dtype, q_shape), options);
            g.Output("dq", grads.dq);
            g.Output("dk", grads.dk);
            g.Output("dv", grads.dv);
          });
    }
  }
}

TEST_CASE("attention keeps to its mask, whatever edge of it a tile has") {
  struct Case {
    int64_t queries, keys, heads, key_heads, depth;
    bool causal;
    int64_t window;
    std::vector<double> lengths;  // of a batch of two; none where empty
  };
  const Case cases[] = {
      {64, 64, 2, 2, 8, false, 0, {}},
      {130, 130, 2, 1, 16, false, 0, {}},
      {5, 200, 4, 2, 8, true, 0, {}},
      {150, 213, 1, 1, 8, true, 0, {}},
      {213, 150, 2, 1, 8, false, 0, {}},
      {200, 200, 1, 1, 8, true, 1, {}},
      {200, 200, 1, 1, 8, true, 17, {}},
      {200, 231, 1, 1, 8, true, 64, {}},
      {200, 231, 1, 1, 8, true, 100, {}},
      {200, 231, 1, 1, 8, false, 33, {}},
      {231, 200, 1, 1, 8, false, 90, {}},
      {33, 33, 2, 1, 256, true, 0, {}},
      {70, 150, 2, 1, 8, false, 0, {150, 1}},
      {70, 150, 2, 1, 8, false, 0, {64, 65}},
      {150, 150, 2, 1, 8, true, 0, {20, 129}},
      {70, 200, 2, 2, 8, true, 40, {180, 165}},
  };
  for (const Precision p : {kF32, kF64, kBf16}) {
    // The same tiles have the same edges in both.
    if (p.dtype == DType::kF64 && !testing::TakesAllInstances()) continue;
    for (const Case& c : cases) {
      CAPTURE(c.queries);
      CAPTURE(c.keys);
      CAPTURE(c.window);
      const Graph graph = MakeGraph("attention", [&](GraphBuilder& g) {
        const Shape q_shape = {2, c.queries, c.heads, c.depth};
        const Shape k_shape = {2, c.keys, c.key_heads, c.depth};
        const Value q = g.Input("q", p.dtype, q_shape);
        const Value k = g.Input("k", p.dtype, k_shape);
        const Value v = g.Input("v", p.dtype, k_shape);
        AttentionOptions options = {
            .scale = 0.5, .causal = c.causal, .window = c.window};
        std::vector<Value> operands = {q, k, v};
        if (!c.lengths.empty()) {
          options.key_lengths = g.Input("lengths", DType::kI32, {2});
          operands.push_back(options.key_lengths);
        }
        const auto results = g.Emit(OpKind::kAttention, operands,
                                    Attrs{{"scale", 0.5},
                                          {"causal", int64_t{c.causal}},
                                          {"window", c.window}});
        g.Output("o", results[0]);
        g.Output("lse", results[1]);
        const AttentionGrads grads =
            AttentionGrad(q, k, v, results[0], results[1],
                          g.Input("d_o", p.dtype, q_shape), options);
        g.Output("dq", grads.dq);
        g.Output("dk", grads.dk);
        g.Output("dv", grads.dv);
      });
      Tensors leaves = RandomLeaves(graph);
      if (!c.lengths.empty()) leaves["lengths"] = c.lengths;
      CheckAgainstInterpreter(graph, leaves, p.tolerance);
    }
  }
}

TEST_CASE("a bias and its gradient keep to tiles and masks") {
  struct Case {
    int64_t queries, keys, heads, key_heads;
    Shape bias;
    bool causal = false;
    int64_t window = 0;
    std::vector<double> lengths = {};  // of a batch of two
  };
  const Case cases[] = {
      {130, 150, 2, 1, {2, 2, 130, 150}, true},
      {70, 200, 4, 2, {1, 4, 70, 200}, false, 0, {130, 65}},
      {200, 131, 2, 2, {1, 2, 1, 131}, false, 90},
      {150, 213, 2, 1, {2, 1, 1, 213}, true, 40, {20, 129}},
      {131, 131, 2, 1, {1, 1, 131, 131}, true},
      {150, 70, 2, 2, {1, 1, 1, 70}},
  };
  for (const Precision p : {kF32, kF64}) {
    // The same tiles have the same edges in both.
    if (p.dtype == DType::kF64 && !testing::TakesAllInstances()) continue;
    for (const Case& c : cases) {
      INFO(c.bias.ToString());
      const Graph graph = MakeGraph("attention", [&](GraphBuilder& g) {
        const Shape q_shape = {2, c.queries, c.heads, 8};
        const Shape k_shape = {2, c.keys, c.key_heads, 8};
        const Value q = g.Input("q", p.dtype, q_shape);
        const Value k = g.Input("k", p.dtype, k_shape);
        const Value v = g.Input("v", p.dtype, k_shape);
        AttentionOptions options = {.scale = 0.5,
                                    .causal = c.causal,
                                    .window = c.window,
                                    .bias = g.Input("bias", p.dtype, c.bias)};
        std::vector<Value> operands = {q, k, v, options.bias};
        if (!c.lengths.empty()) {
          options.key_lengths = g.Input("lengths", DType::kI32, {2});
          operands.push_back(options.key_lengths);
        }
        const auto results = g.Emit(OpKind::kAttention, operands,
                                    Attrs{{"scale", 0.5},
                                          {"causal", int64_t{c.causal}},
                                          {"window", c.window}});
        g.Output("o", results[0]);
        const Value d_o = g.Input("d_o", p.dtype, q_shape);
        const AttentionGrads grads =
            AttentionGrad(q, k, v, results[0], results[1], d_o, options);
        g.Output("dq", grads.dq);
        g.Output("dk", grads.dk);
        g.Output("dv", grads.dv);
        g.Output("dbias", AttentionBiasGrad(q, k, v, results[0], results[1],
                                            d_o, options));
      });
      Tensors leaves = RandomLeaves(graph);
      if (!c.lengths.empty()) leaves["lengths"] = c.lengths;
      CheckAgainstInterpreter(graph, leaves, p.tolerance);
    }
  }
}

TEST_CASE("a bias of -inf for all keys gives zeros, in value and gradient") {
  const Graph graph = MakeGraph("attention", [](GraphBuilder& g) {
    const Value x = g.Input("x", DType::kF32, {1, 70, 1, 8});
    const AttentionOptions options = {
        .scale = 0.5, .bias = g.Input("bias", DType::kF32, {1, 1, 70, 70})};
    const auto results = g.Emit(
        OpKind::kAttention, std::vector<Value>{x, x, x, options.bias},
        Attrs{{"scale", 0.5}, {"causal", int64_t{0}}, {"window", int64_t{0}}});
    g.Output("o", results[0]);
    g.Output("lse", results[1]);
    const AttentionGrads grads =
        AttentionGrad(x, x, x, results[0], results[1], x, options);
    g.Output("dq", grads.dq);
    g.Output("dk", grads.dk);
    g.Output("dbias",
             AttentionBiasGrad(x, x, x, results[0], results[1], x, options));
  });
  Tensors leaves = RandomLeaves(graph);
  std::vector<double>& bias = leaves["bias"];
  // Query 3 reads nothing, query 5 nothing of the first tile, no query key 9.
  std::fill(bias.begin() + 3 * 70, bias.begin() + 4 * 70, -INFINITY);
  std::fill(bias.begin() + 5 * 70, bias.begin() + 5 * 70 + 64, -INFINITY);
  for (size_t t = 0; t < 70; ++t) bias[t * 70 + 9] = -INFINITY;
  const Tensors values = RunOnCpu(graph, leaves).values;
  for (const char* name : {"o", "dq", "dk", "dbias"}) {
    CAPTURE(name);
    for (const double x : values.at(name)) REQUIRE(std::isfinite(x));
  }
  CHECK(values.at("lse")[3] == -INFINITY);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(values.at("o")[3 * 8 + i] == 0);
    CHECK(values.at("dq")[3 * 8 + i] == 0);
    CHECK(values.at("dk")[9 * 8 + i] == 0);
    CHECK(values.at("o")[5 * 8 + i] != 0);
  }
  for (size_t s = 0; s < 70; ++s) CHECK(values.at("dbias")[3 * 70 + s] == 0);
  CheckAgainstInterpreter(graph, leaves, kF32.tolerance);
}

TEST_CASE("keys beyond a length are not read, and lengths are checked") {
  const Graph graph = MakeGraph("attention", [](GraphBuilder& g) {
    const Shape shape = {2, 90, 1, 8};
    const Value q = g.Input("q", DType::kF32, shape);
    const Value k = g.Input("k", DType::kF32, shape);
    const Value v = g.Input("v", DType::kF32, shape);
    const AttentionOptions options = {
        .window = 80, .key_lengths = g.Input("lengths", DType::kI32, {2})};
    const Value o = Attention(q, k, v, options);
    g.Output("o", o);
    const AttentionGrads grads = AttentionGrad(
        q, k, v, o, Fill(g, 1, DType::kF32, {2, 1, 90}), o, options);
    g.Output("dq", grads.dq);
    g.Output("dk", grads.dk);
  });
  Tensors leaves = RandomLeaves(graph);
  leaves["lengths"] = {70, 3};
  const Tensors before = RunOnCpu(graph, leaves).values;
  for (const char* name : {"k", "v"}) {
    std::vector<double>& x = leaves[name];
    std::fill(x.begin() + 70 * 8, x.begin() + 90 * 8, kNaN);
    std::fill(x.begin() + (90 + 3) * 8, x.end(), kNaN);
  }
  const Tensors after = RunOnCpu(graph, leaves).values;
  CHECK(before == after);  // no NaN among them, then
  // Of the window of query 89, from key 10 on, a length of 3 leaves nothing.
  CHECK(after.at("o").back() == 0);
  CHECK(after.at("dq").back() == 0);
  CHECK(after.at("dk").back() == 0);
  for (const double length : {0.0, 91.0, -1.0}) {
    leaves["lengths"] = {70, length};
    CHECK(RunOnCpu(graph, leaves).code == StepCode::kIndexOutOfRange);
  }
}

TEST_CASE(
    "queries read keys of their own segment alone, and these are checked") {
  const Graph graph = MakeGraph("attention", [](GraphBuilder& g) {
    const auto in = [&](const char* name) {
      return g.Input(name, DType::kF32, {1, 6, 1, 8});
    };
    const Value q = in("q"), k = in("k"), v = in("v");
    const AttentionOptions options = {
        .segments = g.Input("segments", DType::kI32, {1, 2, 6})};
    const Value o = Attention(q, k, v, options);
    g.Output("o", o);
    const AttentionGrads grads = AttentionGrad(
        q, k, v, o, Fill(g, 1, DType::kF32, {1, 1, 6}), o, options);
    g.Output("dq", grads.dq);
  });
  Tensors leaves = RandomLeaves(graph);
  const auto run = [&](const std::vector<double>& segments) {
    leaves["segments"] = segments;
    return RunOnCpu(graph, leaves);
  };
  const std::vector<double> good = {0, 0, 2, 2, 2, 5, 2, 2, 5, 5, 5, 6};
  const std::vector<double> before = run(good).values.at("o");
  // Other keys of the last two segments change nothing of the first.
  for (size_t i = 2 * 8; i < 6 * 8; ++i) leaves["k"][i] = -leaves["k"][i];
  const std::vector<double> after = run(good).values.at("o");
  CHECK(std::equal(before.begin(), before.begin() + 2 * 8, after.begin()));
  CHECK(before != after);
  // Nor those of the first of them.
  for (size_t i = 0; i < 2 * 8; ++i) leaves["k"][i] = -leaves["k"][i];
  const std::vector<double> other = run(good).values.at("o");
  CHECK(std::equal(after.begin() + 2 * 8, after.end(), other.begin() + 2 * 8));
  CHECK(other != after);
  // Outside, with a gap, over each other, turned round, of no position.
  const std::vector<double> mistakes[] = {{0, 0, 2, 2, 2, 5, 2, 2, 5, 5, 5, 7},
                                          {-1, 0, 2, 2, 2, 5, 2, 2, 5, 5, 5, 6},
                                          {0, 0, 2, 3, 3, 5, 2, 2, 3, 5, 5, 6},
                                          {0, 0, 1, 1, 1, 5, 2, 2, 5, 5, 5, 6},
                                          {0, 0, 2, 2, 2, 5, 2, 2, 5, 5, 4, 6},
                                          {0, 0, 2, 2, 2, 5, 2, 0, 5, 5, 5, 6},
                                          {0, 0, 2, 2, 2, 5, 0, 0, 5, 5, 5, 6}};
  for (size_t i = 0; i < std::size(mistakes); ++i) {
    CAPTURE(i);
    const bool is_refused = run(mistakes[i]).code == StepCode::kIndexOutOfRange;
    // The third is right: its gap is a segment of one position.
    CHECK(is_refused == (i != 2));
  }
}

TEST_CASE("attention never looks ahead") {
  const Graph graph = MakeGraph("attention", [](GraphBuilder& g) {
    const auto in = [&](const char* name) {
      return g.Input(name, DType::kF32, {1, 100, 1, 8});
    };
    g.Output("o", CausalAttention(in("q"), in("k"), in("v")));
  });
  Tensors leaves = RandomLeaves(graph);
  const std::vector<double> before = RunOnCpu(graph, leaves).values.at("o");
  for (const char* name : {"q", "k", "v"}) {
    std::fill(leaves[name].begin() + 70 * 8, leaves[name].end(), kNaN);
  }
  const std::vector<double> after = RunOnCpu(graph, leaves).values.at("o");
  // Queries 64 to 69 share a group of rows with later ones.
  CHECK(std::equal(before.begin(), before.begin() + 64 * 8, after.begin()));
  CHECK(std::isnan(after[70 * 8]));
}

}  // namespace
}  // namespace stowage
