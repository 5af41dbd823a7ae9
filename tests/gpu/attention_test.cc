// Causal attention and its gradient on the GPU kernels, in the emulator: lengths
// around the sizes of tiles, head depths for every kernel, shared key heads,
// packed operands, three orders of threads.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/gpu/run_graph.h"
#include "tests/support/elements.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

struct Sizes {
  int64_t batch, length, heads, key_heads, depth;
};

enum class Operands {
  kSeparate,
  kPacked,  // q, k and v are slices of one tensor, as of a fused projection
};

// A graph with outputs o, log_sum_exp, dq, dk and dv.
Graph AttentionGraph(const Sizes& s, DType dtype, Operands operands) {
  GraphBuilder g(StrCat("attention ", DTypeName(dtype), " T ", s.length, " H ",
                        s.heads, " / ", s.key_heads, " D ", s.depth));
  const Shape q_shape{s.batch, s.length, s.heads, s.depth};
  const Shape k_shape{s.batch, s.length, s.key_heads, s.depth};
  std::vector<Value> qkv;
  if (operands == Operands::kSeparate) {
    qkv = {g.Input("q", dtype, q_shape), g.Input("k", dtype, k_shape),
           g.Input("v", dtype, k_shape)};
  } else {
    const int64_t q_width = s.heads * s.depth;
    const int64_t k_width = s.key_heads * s.depth;
    const Value all =
        g.Input("qkv", dtype, {s.batch, s.length, q_width + 2 * k_width});
    qkv = Split(all, -1, {q_width, k_width, k_width});
    qkv[0] = Reshape(qkv[0], q_shape);
    qkv[1] = Reshape(qkv[1], k_shape);
    qkv[2] = Reshape(qkv[2], k_shape);
  }
  const double scale = 1.3 / std::sqrt(static_cast<double>(s.depth));
  const std::vector<Value> forward =
      g.Emit(OpKind::kCausalAttention, qkv, {{"scale", scale}});
  const Value d_o = g.Input("d_o", dtype, q_shape);
  const CausalAttentionGrads grads = CausalAttentionGrad(
      qkv[0], qkv[1], qkv[2], forward[0], forward[1], d_o, scale);
  g.Output("o", forward[0]);
  g.Output("log_sum_exp", forward[1]);
  g.Output("dq", grads.dq);
  g.Output("dk", grads.dk);
  g.Output("dv", grads.dv);
  Result<Graph> graph = g.Finish();
  STOWAGE_CHECK(graph.ok());
  return *std::move(graph);
}

Tensors NormalLeaves(const Graph& graph) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      std::byte stored[8];  // numbers of the type, so that only kernels round
      EncodeElement(value.type.dtype, normal(random), stored);
      leaves[value.name].push_back(DecodeElement(value.type.dtype, stored));
    }
  }
  return leaves;
}

struct Tolerance {
  double o, log_sum_exp, gradients;
};
// Half a unit in the last place of bf16 is 2^-9 of its element, of f16 2^-12;
// gradients are sums of products with rounded probabilities.
constexpr Tolerance kBF16 = {4e-3, 1e-5, 8e-3};
constexpr Tolerance kF16 = {5e-4, 1e-5, 1e-3};
constexpr Tolerance kF32 = {1e-5, 1e-5, 1e-5};

void Check(const Sizes& sizes, DType dtype, const Tolerance& tolerance,
           Operands operands = Operands::kSeparate) {
  const Graph graph = AttentionGraph(sizes, dtype, operands);
  CAPTURE(graph.name());
  const Tensors leaves = NormalLeaves(graph);
  Tensors expected = Interpret(graph, leaves);
  GpuRun first;
  for (const uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    const GpuRun run =
        RunInEmulator(graph, leaves, {.seed = seed, .misaligned = seed == 3});
    REQUIRE(run.wrong == "");
    if (seed == 1) {
      first = run;
    } else {
      CHECK(run.bytes == first.bytes);
    }
  }
  const auto error = [&](const char* name) {
    return LargestError(first.values[name], expected[name]);
  };
  CHECK(error("o") <= tolerance.o);
  CHECK(error("log_sum_exp") <= tolerance.log_sum_exp);
  CHECK(error("dq") <= tolerance.gradients);
  CHECK(error("dk") <= tolerance.gradients);
  CHECK(error("dv") <= tolerance.gradients);
}

TEST_CASE("bf16 attention agrees with the interpreter") {
  for (const int64_t length : {1, 17, 64, 130, 257}) {
    Check({1, length, 1, 1, 64}, DType::kBF16, kBF16);
  }
  for (const int64_t depth : {32, 80, 128}) {
    Check({1, 17, 2, 2, depth}, DType::kBF16, kBF16);
    Check({1, 130, 1, 1, depth}, DType::kBF16, kBF16);
  }
}

TEST_CASE("bf16 attention takes shared key heads and packed operands") {
  Check({2, 40, 6, 2, 64}, DType::kBF16, kBF16);
  Check({1, 70, 4, 1, 128}, DType::kBF16, kBF16);
  Check({2, 70, 2, 2, 64}, DType::kBF16, kBF16, Operands::kPacked);
  Check({2, 40, 4, 2, 32}, DType::kBF16, kBF16, Operands::kPacked);
  // Rows of 6 bytes, which cannot be loaded 16 at a time.
  Check({2, 40, 3, 3, 3}, DType::kBF16, kBF16, Operands::kPacked);
}

TEST_CASE("f16 attention agrees with the interpreter") {
  Check({1, 70, 2, 1, 64}, DType::kF16, kF16);
  Check({1, 70, 1, 1, 128}, DType::kF16, kF16);
}

TEST_CASE("f32 attention agrees with the interpreter") {
  for (const int64_t length : {1, 17, 64, 130}) {
    Check({1, length, 2, 2, 64}, DType::kF32, kF32);
  }
  for (const int64_t depth : {5, 80, 128, 200, 256}) {
    Check({1, 70, 2, 2, depth}, DType::kF32, kF32);
  }
  Check({2, 40, 6, 2, 32}, DType::kF32, kF32);
  Check({2, 40, 4, 2, 7}, DType::kF32, kF32, Operands::kPacked);
}

TEST_CASE("rows longer than the tensor cores' tiles are computed in f32") {
  Check({1, 70, 2, 1, 160}, DType::kBF16, kBF16);
}

TEST_CASE("a NaN reaches the queries that see it and no others") {
  const Graph graph =
      AttentionGraph({1, 70, 1, 1, 64}, DType::kBF16, Operands::kSeparate);
  Tensors leaves = NormalLeaves(graph);
  leaves["k"][65 * 64 + 3] = NAN;
  const GpuRun run = RunInEmulator(graph, leaves);
  REQUIRE(run.wrong == "");
  for (size_t t = 0; t < 70; ++t) {
    CHECK(std::isnan(run.values.at("o")[t * 64]) == (t >= 65));
    CHECK(std::isnan(run.values.at("dq")[t * 64]) == (t >= 65));
  }
}

}  // namespace
}  // namespace stowage
