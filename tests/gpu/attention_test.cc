// Attention and its gradient on the GPU kernels, in the emulator: lengths around
// the sizes of tiles, masks whose edges go through tiles anywhere, head depths for
// every kernel, shared key heads, packed operands, three orders of threads; 16 bits by
// products of warps and by products of warpgroups, and gradients by five products.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/kernels/attention_params.h"
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

// What queries read.
struct Mask {
  int64_t more_keys = 0;  // than there are queries
  bool causal = true;
  int64_t window = 0;
  std::vector<double> lengths = {};  // none where empty
  Shape bias = {};                   // none where of rank 0
};

enum class Operands {
  kSeparate,
  kPacked,  // q, k and v are slices of one tensor, as of a fused projection
};

// A graph with outputs o, log_sum_exp, dq, dk, dv and, of a bias, dbias.
Graph AttentionGraph(const Sizes& s, DType dtype, Operands operands,
                     const Mask& mask = {}) {
  GraphBuilder g(StrCat("attention ", DTypeName(dtype), " T ", s.length, " H ",
                        s.heads, " / ", s.key_heads, " D ", s.depth, " + ",
                        mask.more_keys, mask.causal ? " causal" : "", " W ",
                        mask.window, " bias ", mask.bias.ToString()));
  const Shape q_shape{s.batch, s.length, s.heads, s.depth};
  const Shape k_shape{s.batch, s.length + mask.more_keys, s.key_heads, s.depth};
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
  AttentionOptions options = {
      .scale = scale, .causal = mask.causal, .window = mask.window};
  if (mask.bias.rank() > 0) {
    options.bias = g.Input("bias", dtype, mask.bias);
    qkv.push_back(options.bias);
  }
  if (!mask.lengths.empty()) {
    options.key_lengths = g.Input("lengths", DType::kI32, {s.batch});
    qkv.push_back(options.key_lengths);
  }
  const std::vector<Value> forward = g.Emit(OpKind::kAttention, qkv,
                                            {{"scale", scale},
                                             {"causal", int64_t{mask.causal}},
                                             {"window", mask.window}});
  const Value d_o = g.Input("d_o", dtype, q_shape);
  const AttentionGrads grads = AttentionGrad(qkv[0], qkv[1], qkv[2], forward[0],
                                             forward[1], d_o, options);
  g.Output("o", forward[0]);
  g.Output("log_sum_exp", forward[1]);
  g.Output("dq", grads.dq);
  g.Output("dk", grads.dk);
  g.Output("dv", grads.dv);
  if (options.bias.ok()) {
    g.Output("dbias", AttentionBiasGrad(qkv[0], qkv[1], qkv[2], forward[0],
                                        forward[1], d_o, options));
  }
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

// Attention is computed in that way. `if_misaligned` is what comes of misaligned operands,
// where that is not what comes of others. Returns the first run.
GpuRun CheckWay(const Graph& graph, const Tensors& leaves, Tensors expected,
                const Tolerance& tolerance, const std::vector<uint64_t>& seeds,
                gpu::AttentionAlgorithm way,
                const GpuRun* if_misaligned = nullptr) {
  CAPTURE(way);
  GpuRun first;
  for (const uint64_t seed : seeds) {
    CAPTURE(seed);
    const GpuRun run = RunInEmulator(
        graph, leaves,
        {.seed = seed, .misaligned = seed == 3, .attention = way});
    REQUIRE(run.wrong == "");
    if (seed == seeds[0]) {
      first = run;
    } else if (seed == 3 && if_misaligned != nullptr) {
      CHECK(run.bytes == if_misaligned->bytes);
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
  if (expected.contains("dbias")) {
    CHECK(error("dbias") <= tolerance.gradients);
  }
  return first;
}

// What five products are for: no query reads a key behind its own place.
bool TakesFiveProducts(const Sizes& s, DType dtype, const Mask& mask) {
  return SizeOf(dtype) == 2 && s.depth <= 128 && s.depth % 16 == 0 &&
         s.heads == s.key_heads && mask.more_keys == 0 &&
         (mask.causal || mask.window == 1 || s.length == 1) &&
         mask.lengths.empty() && mask.bias.rank() == 0;
}

// On all paths that there are.
void Check(const Sizes& sizes, DType dtype, const Tolerance& tolerance,
           Operands operands = Operands::kSeparate, const Mask& mask = {},
           const std::vector<uint64_t>& seeds = {1, 2, 3}) {
  const Graph graph = AttentionGraph(sizes, dtype, operands, mask);
  CAPTURE(graph.name());
  Tensors leaves = NormalLeaves(graph);
  if (!mask.lengths.empty()) leaves["lengths"] = mask.lengths;
  const Tensors expected = Interpret(graph, leaves);
  const GpuRun by_warps = CheckWay(graph, leaves, expected, tolerance, seeds,
                                   gpu::AttentionAlgorithm::kWarps);
  if (SizeOf(dtype) == 2 && sizes.depth <= 128 && mask.bias.rank() == 0) {
    // Bulk copies take aligned rows alone.
    CheckWay(graph, leaves, expected, tolerance, seeds,
             gpu::AttentionAlgorithm::kWarpgroups, &by_warps);
  }
  if (TakesFiveProducts(sizes, dtype, mask)) {
    CHECK(CheckWay(graph, leaves, expected, tolerance, seeds,
                   gpu::AttentionAlgorithm::kFiveProducts)
              .grids == by_warps.grids - 1);
  }
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

// For tiles of up to 128 queries and 128 keys.
struct MaskedCase {
  int64_t length, heads, key_heads;
  Mask mask;
};
std::vector<MaskedCase> MaskedCases() {
  return {
      {70, 2, 2, {.causal = false}},
      {5, 4, 2, {.more_keys = 150}},
      {130, 1, 1, {.more_keys = 77}},
      {150, 2, 1, {.more_keys = -83, .causal = false}},
      {200, 1, 1, {.window = 1}},
      {200, 1, 1, {.window = 33}},
      // Tiles that the first 64 of 128 queries read whole, and the others in part.
      {260, 1, 1, {.window = 190}},
      {70, 1, 1, {.more_keys = 170, .window = 50}},
      {140, 1, 1, {.more_keys = 20, .causal = false, .window = 9}},
      {150, 1, 1, {.more_keys = -20, .causal = false, .window = 90}},
      {70, 2, 1, {.more_keys = 70, .causal = false, .lengths = {140, 1}}},
      {130, 1, 1, {.more_keys = 20, .lengths = {21, 129}}},
      {70, 1, 1, {.more_keys = 130, .window = 40, .lengths = {180, 165}}},
  };
}

// One order of threads: the orders are tried by the cases above.
void CheckMasked(const MaskedCase& c, DType dtype, int64_t depth,
                 const Tolerance& tolerance) {
  const auto batch =
      std::max<int64_t>(1, static_cast<int64_t>(c.mask.lengths.size()));
  Check({batch, c.length, c.heads, c.key_heads, depth}, dtype, tolerance,
        Operands::kSeparate, c.mask, {2});
}

TEST_CASE("bf16 attention keeps to its mask") {
  // Each depth has kernels of its own.
  for (const MaskedCase& c : MaskedCases()) {
    for (const int64_t depth : {32, 64, 128}) {
      CheckMasked(c, DType::kBF16, depth, kBF16);
    }
  }
}

TEST_CASE("f32 attention keeps to its mask") {
  for (const MaskedCase& c : MaskedCases()) {
    CheckMasked(c, DType::kF32, 40, kF32);
  }
  CheckMasked({40, 2, 1, {.more_keys = 30, .window = 25}}, DType::kF32, 128,
              kF32);
  CheckMasked({40, 2, 1, {.more_keys = 3, .lengths = {41, 18}}}, DType::kF32,
              256, kF32);
}

TEST_CASE("attention with a bias agrees with the interpreter") {
  // Each depth and type has kernels of its own.
  const auto check = [](const Sizes& sizes, const Mask& mask) {
    Check(sizes, DType::kBF16, kBF16, Operands::kSeparate, mask, {2});
    Check(sizes, DType::kF16, kF16, Operands::kSeparate, mask, {3});
    Check(sizes, DType::kF32, kF32, Operands::kSeparate, mask, {1, 2});
  };
  check({2, 37, 2, 1, 20}, {.more_keys = 30, .bias = {1, 2, 37, 67}});
  check({2, 37, 2, 1, 96},
        {.causal = false, .lengths = {37, 5}, .bias = {2, 1, 1, 37}});
  check({1, 20, 2, 2, 160}, {.window = 9, .bias = {1, 2, 1, 20}});
  check({2, 35, 2, 2, 4},
        {.more_keys = 30, .window = 20, .bias = {1, 1, 35, 65}});
}

TEST_CASE("a bias of -inf for all keys gives zeros, in value and gradient") {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const Graph graph =
        AttentionGraph({1, 40, 1, 1, 8}, dtype, Operands::kSeparate,
                       {.causal = false, .bias = {1, 1, 40, 40}});
    Tensors leaves = NormalLeaves(graph);
    std::vector<double>& bias = leaves["bias"];
    // Query 3 reads nothing, query 5 nothing of the first tile, no query key 9.
    std::fill(bias.begin() + 3 * 40, bias.begin() + 4 * 40, -INFINITY);
    std::fill(bias.begin() + 5 * 40, bias.begin() + 5 * 40 + 32, -INFINITY);
    for (size_t t = 0; t < 40; ++t) bias[t * 40 + 9] = -INFINITY;
    const GpuRun run = RunInEmulator(graph, leaves);
    REQUIRE(run.wrong == "");
    for (const char* name : {"o", "dq", "dk", "dv", "dbias"}) {
      CAPTURE(name);
      for (const double x : run.values.at(name)) REQUIRE(std::isfinite(x));
    }
    CHECK(run.values.at("log_sum_exp")[3] == -INFINITY);
    for (size_t i = 0; i < 8; ++i) {
      CHECK(run.values.at("o")[3 * 8 + i] == 0);
      CHECK(run.values.at("dq")[3 * 8 + i] == 0);
      CHECK(run.values.at("dk")[9 * 8 + i] == 0);
      CHECK(run.values.at("o")[5 * 8 + i] != 0);
    }
    for (size_t s = 0; s < 40; ++s) {
      CHECK(run.values.at("dbias")[3 * 40 + s] == 0);
    }
  }
}

TEST_CASE("keys beyond a length are not read, and lengths are checked") {
  struct Path {
    DType dtype;
    gpu::AttentionAlgorithm way;
  };
  for (const Path& path :
       {Path{DType::kBF16, gpu::AttentionAlgorithm::kWarps},
        Path{DType::kBF16, gpu::AttentionAlgorithm::kWarpgroups},
        Path{DType::kF32, gpu::AttentionAlgorithm::kWarps}}) {
    CAPTURE(path.way);
    const DType dtype = path.dtype;
    const GpuRunOptions options{.attention = path.way};
    const Graph graph =
        AttentionGraph({2, 90, 1, 1, 8}, dtype, Operands::kSeparate,
                       {.causal = false, .window = 80, .lengths = {70, 3}});
    Tensors leaves = NormalLeaves(graph);
    leaves["lengths"] = {70, 3};
    const GpuRun before = RunInEmulator(graph, leaves, options);
    for (const char* name : {"k", "v"}) {
      std::vector<double>& x = leaves[name];
      std::fill(x.begin() + 70 * 8, x.begin() + 90 * 8, NAN);
      std::fill(x.begin() + (90 + 3) * 8, x.end(), NAN);
    }
    const GpuRun after = RunInEmulator(graph, leaves, options);
    CHECK(after.wrong == "");
    CHECK(before.values == after.values);  // no NaN among them, then
    for (const uint64_t seed : {1, 2}) {
      CAPTURE(seed);
      CHECK(RunInEmulator(
                graph, leaves,
                {.seed = seed, .warp_by_warp = true, .attention = path.way})
                .bytes == before.bytes);
    }
    // Of the window of query 89, from key 10 on, a length of 3 leaves nothing.
    CHECK(after.values.at("o").back() == 0);
    CHECK(after.values.at("dq").back() == 0);
    CHECK(after.values.at("dk").back() == 0);
    for (const double length : {0.0, 91.0, -1.0}) {
      leaves["lengths"] = {70, length};
      CHECK(RunInEmulator(graph, leaves, options).fault);
    }
  }
}

// Query t reads the keys from t - 24 to t + 4, so the last of a block of 128 reads none
// from key 132 on, which is in the middle of a tile.
TEST_CASE("keys behind those of a block of queries are not read") {
  const Graph graph =
      AttentionGraph({1, 150, 1, 1, 64}, DType::kBF16, Operands::kSeparate,
                     {.more_keys = -10, .causal = false, .window = 15});
  Tensors leaves = NormalLeaves(graph);
  leaves["v"][135 * 64 + 3] = NAN;
  leaves["k"][136 * 64 + 3] = INFINITY;
  for (const gpu::AttentionAlgorithm way :
       {gpu::AttentionAlgorithm::kWarps,
        gpu::AttentionAlgorithm::kWarpgroups}) {
    CAPTURE(way);
    const GpuRun run = RunInEmulator(graph, leaves, {.attention = way});
    REQUIRE(run.wrong == "");
    for (const char* name : {"o", "dq"}) {
      for (size_t i = 0; i < 128 * 64; ++i) {
        REQUIRE(std::isfinite(run.values.at(name)[i]));
      }
    }
    CHECK(std::isnan(run.values.at("o")[140 * 64 + 3]));
  }
}

TEST_CASE("gradients by five products go through many tiles") {
  // Tiles of 128 keys: dq of the last queries adds up over up to four of them.
  const auto check = [](const Sizes& sizes, DType dtype,
                        const Tolerance& tolerance, Operands operands,
                        const Mask& mask, const std::vector<uint64_t>& seeds) {
    const Graph graph = AttentionGraph(sizes, dtype, operands, mask);
    CAPTURE(graph.name());
    const Tensors leaves = NormalLeaves(graph);
    // One forward, one for o . d_o, one for all the rest.
    CHECK(CheckWay(graph, leaves, Interpret(graph, leaves), tolerance, seeds,
                   gpu::AttentionAlgorithm::kFiveProducts)
              .grids == 3);
  };
  check({2, 300, 2, 2, 64}, DType::kBF16, kBF16, Operands::kPacked, {}, {1, 3});
  check({1, 449, 1, 1, 16}, DType::kBF16, kBF16, Operands::kSeparate, {},
        {1, 2});
  check({1, 300, 1, 1, 48}, DType::kF16, kF16, Operands::kSeparate, {}, {2, 3});
  check({1, 200, 1, 1, 112}, DType::kBF16, kBF16, Operands::kSeparate, {},
        {1, 2});
  for (const int64_t depth : {32, 64, 128}) {
    // Windows of less than a tile, and of one and a half or three.
    for (const int64_t window : {2, 190}) {
      check({1, 320, 1, 1, depth}, DType::kF16, kF16, Operands::kSeparate,
            {.window = window}, {2});
    }
  }
}

TEST_CASE("what five products do not take is as if they were not wanted") {
  struct Case {
    Sizes sizes;
    DType dtype = DType::kBF16;
    Mask mask = {};
  };
  for (const Case& c : {
           Case{{1, 20, 1, 1, 32}, DType::kF32},
           Case{{1, 20, 1, 1, 24}},
           Case{{1, 20, 1, 1, 144}},
           Case{{1, 20, 2, 1, 32}},
           Case{{1, 20, 1, 1, 32}, DType::kBF16, {.more_keys = 1}},
           // Fewer keys than queries, none of which reads one behind itself.
           Case{{1, 20, 1, 1, 32},
                DType::kBF16,
                {.more_keys = -1, .causal = false, .window = 2}},
           Case{{1, 20, 1, 1, 32}, DType::kBF16, {.causal = false}},
           Case{
               {1, 20, 1, 1, 32}, DType::kBF16, {.causal = false, .window = 2}},
           Case{{1, 20, 1, 1, 32}, DType::kBF16, {.lengths = {20}}},
           Case{{1, 20, 1, 1, 32}, DType::kBF16, {.bias = {1, 1, 1, 20}}},
       }) {
    REQUIRE(!TakesFiveProducts(c.sizes, c.dtype, c.mask));
    const Graph graph =
        AttentionGraph(c.sizes, c.dtype, Operands::kSeparate, c.mask);
    CAPTURE(graph.name());
    Tensors leaves = NormalLeaves(graph);
    if (!c.mask.lengths.empty()) leaves["lengths"] = c.mask.lengths;
    const GpuRun as_ever = RunInEmulator(graph, leaves);
    const GpuRun run = RunInEmulator(
        graph, leaves, {.attention = gpu::AttentionAlgorithm::kFiveProducts});
    CHECK(run.wrong == "");
    CHECK(run.grids == as_ever.grids);
    CHECK(run.bytes == as_ever.bytes);
  }
}

TEST_CASE("five products are taken up to the edges of what they are for") {
  gpu::AttentionParams causal;
  causal.batch = 2;
  causal.queries = causal.keys = 40;
  causal.heads = causal.key_heads = 3;
  causal.depth = 64;
  causal.low = -40;
  const auto takes = [&](auto change) {
    gpu::AttentionParams p = causal;
    change(p);
    return gpu::TakesFiveProducts(DType::kBF16, p);
  };
  using Params = gpu::AttentionParams;
  CHECK(gpu::TakesFiveProducts(DType::kF16, causal));
  CHECK(!gpu::TakesFiveProducts(DType::kF32, causal));
  CHECK(takes([](Params& p) { p.depth = 16; }));
  CHECK(takes([](Params& p) { p.depth = 128; }));
  CHECK(!takes([](Params& p) { p.depth = 8; }));
  CHECK(!takes([](Params& p) { p.depth = 56; }));
  CHECK(!takes([](Params& p) { p.depth = 144; }));
  CHECK(takes([](Params& p) { p.low = 0; }));
  CHECK(!takes([](Params& p) { p.high = 1; }));
  CHECK(!takes([](Params& p) { p.high = -1; }));
  CHECK(!takes([](Params& p) { p.keys = 41; }));
  CHECK(!takes([](Params& p) { p.key_heads = 1; }));
  CHECK(takes([](Params& p) { p.batch = 65535; }));
  CHECK(!takes([](Params& p) { p.batch = 65536; }));
  const int32_t length = 0;
  CHECK(!takes([&](Params& p) { p.key_lengths = &length; }));
  CHECK(!takes([&](Params& p) { p.bias.data = &length; }));
}

TEST_CASE("dq adds up in f32 over the tiles of a long sequence") {
  // Seven tiles of keys. Sums rounded in between would add a fifth to the error.
  const Graph graph =
      AttentionGraph({1, 800, 1, 1, 16}, DType::kBF16, Operands::kSeparate);
  const Tensors leaves = NormalLeaves(graph);
  const std::vector<double> expected = Interpret(graph, leaves)["dq"];
  const auto error = [&](const GpuRunOptions& path) {
    const GpuRun run = RunInEmulator(graph, leaves, path);
    REQUIRE(run.wrong == "");
    const std::vector<double>& dq = run.values.at("dq");
    double squares = 0;
    for (size_t i = 0; i < dq.size(); ++i) {
      squares += (dq[i] - expected[i]) * (dq[i] - expected[i]);
    }
    return std::sqrt(squares / static_cast<double>(dq.size()));
  };
  CHECK(error({.attention = gpu::AttentionAlgorithm::kFiveProducts}) <=
        1.02 * error({}));
}

TEST_CASE("a NaN reaches the queries that see it and no others") {
  const Graph graph =
      AttentionGraph({1, 70, 1, 1, 64}, DType::kBF16, Operands::kSeparate);
  Tensors leaves = NormalLeaves(graph);
  leaves["k"][65 * 64 + 3] = NAN;
  for (const gpu::AttentionAlgorithm way :
       {gpu::AttentionAlgorithm::kWarps, gpu::AttentionAlgorithm::kWarpgroups,
        gpu::AttentionAlgorithm::kFiveProducts}) {
    CAPTURE(way);
    const GpuRun run = RunInEmulator(graph, leaves, {.attention = way});
    REQUIRE(run.wrong == "");
    for (size_t t = 0; t < 70; ++t) {
      CHECK(std::isnan(run.values.at("o")[t * 64]) == (t >= 65));
      CHECK(std::isnan(run.values.at("dq")[t * 64]) == (t >= 65));
    }
  }
}

}  // namespace
}  // namespace stowage
