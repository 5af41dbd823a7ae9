// Ops and their gradients against PyTorch's, by the interpreter and by the CPU's kernels in
// f64: files of tests/goldens with rows case,what,index,value, whose operands follow the
// formula of make_goldens.py. Each file's script, make_*_goldens.py, has the same cases.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/backward.h"
#include "autodiff/train_step.h"
#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "runtime/kernel.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/golden_rows.h"
#include "tests/support/interpret.h"
#include "tests/support/tied_embedding.h"

namespace stowage {
namespace {

// An op of f64 operands with one result, y.
struct GoldenCase {
  std::string name;
  std::vector<std::pair<std::string, Shape>> operands;
  std::function<Value(GraphBuilder&, std::span<const Value>)> build;
  Tensors others = {};  // inputs that `build` declares
};

// The formula of make_goldens.py.
uint64_t Bits(std::string_view name, int64_t index) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  uint64_t z = hash + (static_cast<uint64_t>(index) + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::vector<double> Values(const std::string& name, const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    values.push_back(static_cast<double>(Bits(name, i) >> 11) * 0x1p-52 - 1.0);
  }
  return values;
}

// Forward and backward, of a loss that weighs each element of y.
Graph WithGradients(const GoldenCase& c, Shape* y_shape) {
  GraphBuilder g(c.name);
  std::vector<Value> operands;
  for (const auto& [name, shape] : c.operands) {
    operands.push_back(g.Param(name, DType::kF64, shape));
  }
  const Value y = g.Name("y", c.build(g, operands));
  REQUIRE(y.ok());
  *y_shape = y.shape();
  const Value weights = g.Input("weights", DType::kF64, y.shape());
  g.Output("y", y);
  g.Output("loss", ReduceSum(Mul(y, weights)));
  const Result<Graph> forward = g.Finish();
  REQUIRE_MESSAGE(forward.ok(), forward.error().message);
  const auto backward = BuildBackward(*forward, "loss");
  REQUIRE_MESSAGE(backward.ok(), backward.error().message);
  const auto linked = LinkBackward(*forward, *backward, "loss");
  REQUIRE_MESSAGE(linked.ok(), linked.error().message);
  return *linked;
}

// Compares y and the gradient of every operand ("d" and its name), for a loss that weighs
// each element of y, with the case's rows. Returns the number of comparisons: two a row.
size_t CompareOp(const std::vector<OpGolden>& goldens, const GoldenCase& c) {
  Shape y;
  const Graph graph = WithGradients(c, &y);
  Tensors leaves = c.others;
  leaves["weights"] = Values(c.name + " weights", y);
  for (const auto& operand : c.operands) {
    leaves[operand.first] =
        Values(c.name + " " + operand.first, operand.second);
  }
  const CpuRun run = RunOnCpu(graph, leaves);
  REQUIRE(run.code == StepCode::kOk);
  const Tensors interpreted = Interpret(graph, leaves);
  size_t compared = 0;
  for (const Tensors* values : {&interpreted, &run.values}) {
    for (const OpGolden& row : goldens) {
      if (row.name != c.name) continue;
      INFO(c.name << " " << row.what << " " << row.index);
      const std::vector<double>& have =
          values->at(row.what == "y" ? "y" : "grad:" + row.what.substr(1));
      double value = 0;
      if (row.index == "norm2") {
        for (const double element : have) value += element * element;
        value = std::sqrt(value);
      } else {
        value = have.at(static_cast<size_t>(std::stoll(row.index)));
      }
      CHECK(std::abs(value - row.value) <=
            1e-12 * std::max(1.0, std::abs(row.value)));
      ++compared;
    }
  }
  return compared;
}

struct AttentionCase {
  const char* name;
  Shape q, k;
  AttentionOptions options = {};
  std::vector<double> lengths = {};
  Shape bias = {};                   // none where of rank 0
  std::vector<int64_t> closed = {};  // how many of an entry's last keys
};

std::vector<AttentionCase> AttentionCases() {
  return {
      {"all keys", {2, 9, 4, 8}, {2, 9, 4, 8}},
      {"more keys and shared heads", {2, 5, 6, 8}, {2, 13, 2, 8}},
      {"more queries", {1, 13, 2, 8}, {1, 5, 1, 8}},
      {"causal with shared heads",
       {2, 9, 4, 8},
       {2, 9, 1, 8},
       {.causal = true}},
      {"causal with more keys",
       {1, 70, 2, 4},
       {1, 90, 2, 4},
       {.scale = 0.7, .causal = true}},
      {"causal window",
       {1, 70, 2, 4},
       {1, 90, 1, 4},
       {.causal = true, .window = 7}},
      {"window", {1, 20, 1, 4}, {1, 24, 1, 4}, {.window = 5}},
      {"lengths", {3, 5, 2, 8}, {3, 11, 2, 8}, {}, {4, 11, 1}},
      {"bias", {2, 5, 4, 8}, {2, 7, 2, 8}, {}, {}, {2, 4, 5, 7}},
      {"relative positions",
       {2, 9, 4, 8},
       {2, 9, 4, 8},
       {.causal = true},
       {},
       {1, 4, 9, 9}},
      {"bias of heads",
       {2, 70, 4, 4},
       {2, 75, 1, 4},
       {.causal = true, .window = 9},
       {},
       {1, 4, 1, 75}},
      {"bias for all", {2, 6, 2, 4}, {2, 5, 2, 4}, {}, {}, {1, 1, 1, 5}},
      {"padding",
       {3, 5, 2, 8},
       {3, 11, 2, 8},
       {},
       {},
       {3, 1, 1, 11},
       {7, 0, 10}},
  };
}

// To be added to a bias (B, 1, 1, S).
std::vector<double> ClosedKeys(const AttentionCase& c) {
  std::vector<double> added;
  for (const int64_t closed : c.closed) {
    for (int64_t s = 0; s < c.bias[3]; ++s) {
      added.push_back(s < c.bias[3] - closed ? 0 : -INFINITY);
    }
  }
  return added;
}

TEST_CASE("attention and its gradients are PyTorch's") {
  const std::vector<OpGolden> goldens =
      ReadOpGoldens("tests/goldens/attention.csv");
  size_t compared = 0;
  for (const AttentionCase& c : AttentionCases()) {
    GoldenCase golden = {c.name, {{"q", c.q}, {"k", c.k}, {"v", c.k}}, {}};
    golden.build = [&c](GraphBuilder& g, std::span<const Value> qkv) {
      AttentionOptions options = c.options;
      if (!c.lengths.empty()) {
        options.key_lengths = g.Input("lengths", DType::kI32, {c.q[0]});
      }
      if (c.bias.rank() > 0) options.bias = qkv[3];
      if (!c.closed.empty()) {
        options.bias = Add(qkv[3], g.Input("closed", DType::kF64, c.bias));
      }
      return Attention(qkv[0], qkv[1], qkv[2], options);
    };
    if (c.bias.rank() > 0) golden.operands.emplace_back("bias", c.bias);
    if (!c.lengths.empty()) golden.others["lengths"] = c.lengths;
    if (!c.closed.empty()) golden.others["closed"] = ClosedKeys(c);
    compared += CompareOp(goldens, golden);
  }
  CHECK(compared == 2 * goldens.size());
}

struct ConvCase {
  const char* name;
  Shape x, w;
  std::function<Value(Value, Value)> build;
};

std::vector<ConvCase> ConvCases() {
  const auto conv = [](ConvOptions options) {
    return [options](Value x, Value w) { return Conv(x, w, options); };
  };
  const auto transposed = [](ConvTransposeOptions options) {
    return [options](Value x, Value w) { return ConvTranspose(x, w, options); };
  };
  return {
      {"conv plain", {2, 3, 8, 7}, {4, 3, 3, 2}, conv({})},
      {"conv strides and dilation",
       {2, 4, 9, 10},
       {6, 2, 3, 3},
       conv({.stride = {2, 1},
             .padding = {1, 2},
             .dilation = {1, 2},
             .groups = 2})},
      {"conv depthwise",
       {2, 5, 7, 7},
       {5, 1, 3, 3},
       conv({.stride = 2, .padding = 1, .groups = 5})},
      {"conv one dimension",
       {3, 2, 11},
       {4, 2, 4},
       conv({.stride = 3, .padding = 2})},
      {"conv three dimensions",
       {1, 2, 4, 5, 6},
       {3, 2, 2, 3, 2},
       conv({.stride = {1, 2, 1}, .padding = {1, 0, 1}})},
      {"transposed twofold",
       {2, 6, 4, 5},
       {6, 3, 2, 2},
       transposed({.stride = 2})},
      {"transposed with output padding",
       {2, 4, 5, 4},
       {4, 3, 3, 3},
       transposed({.stride = {2, 3},
                   .padding = 1,
                   .groups = 2,
                   .output_padding = {1, 2}})},
      {"transposed with dilation",
       {1, 3, 6},
       {3, 2, 3},
       transposed({.stride = 2, .padding = 1, .dilation = 2})},
  };
}

TEST_CASE("convolutions and their gradients are PyTorch's") {
  const std::vector<OpGolden> goldens =
      ReadOpGoldens("tests/goldens/convolutions.csv");
  size_t compared = 0;
  for (const ConvCase& c : ConvCases()) {
    const auto build = [&c](GraphBuilder&, std::span<const Value> operands) {
      return c.build(operands[0], operands[1]);
    };
    compared += CompareOp(goldens, {c.name, {{"x", c.x}, {"w", c.w}}, build});
  }
  CHECK(compared == 2 * goldens.size());
}

struct ResponseNormCase {
  const char* name;
  Shape x;
  LocalResponse response;
};

std::vector<ResponseNormCase> ResponseNormCases() {
  return {
      {"alexnet",
       {2, 11, 4, 3},
       {.size = 5, .alpha = 1e-4, .beta = 0.75, .bias = 1}},
      {"strong", {2, 7, 5, 6}, {.size = 3, .alpha = 2, .beta = 1.5, .bias = 2}},
      {"even", {3, 8, 9}, {.size = 4, .alpha = 1, .beta = 0.5, .bias = 0.5}},
      {"wider than the channels",
       {2, 3, 2, 3, 4},
       {.size = 12, .alpha = 5, .beta = 0.75, .bias = 1}},
  };
}

TEST_CASE("local response norms and their gradients are PyTorch's") {
  const std::vector<OpGolden> goldens =
      ReadOpGoldens("tests/goldens/local_response_norm.csv");
  size_t compared = 0;
  for (const ResponseNormCase& c : ResponseNormCases()) {
    const auto build = [&c](GraphBuilder&, std::span<const Value> operands) {
      return LocalResponseNorm(operands[0], c.response);
    };
    compared += CompareOp(goldens, {c.name, {{"x", c.x}}, build});
  }
  CHECK(compared == 2 * goldens.size());
}

struct LstmCase {
  const char* name;
  int64_t batch, time, hidden;
  bool reverse;
};

constexpr LstmCase kLstmCases[] = {
    {"forward", 3, 5, 4, false},
    {"backward", 2, 4, 7, true},
    {"one position", 2, 1, 3, false},
    {"wide", 5, 3, 37, false},
};

TEST_CASE("lstm sequences and their gradients are PyTorch's") {
  const std::vector<OpGolden> goldens = ReadOpGoldens("tests/goldens/lstm.csv");
  size_t compared = 0;
  for (const LstmCase& c : kLstmCases) {
    const Shape state = {c.batch, c.hidden};
    compared += CompareOp(
        goldens, {c.name,
                  {{"gates", {c.batch, c.time, 4 * c.hidden}},
                   {"h0", state},
                   {"c0", state},
                   {"w", {4 * c.hidden, c.hidden}}},
                  [&c](GraphBuilder&, std::span<const Value> operands) {
                    return LstmSequence(operands[0], operands[1], operands[2],
                                        operands[3], c.reverse)
                        .h;
                  }});
  }
  CHECK(compared == 2 * goldens.size());
}

TEST_CASE("the gradient of a tied embedding is as near as PyTorch's in bf16") {
  for (const int64_t chunk : {0, 64}) {
    const TiedErrors errors = ErrorsOfTiedEmbedding(
        chunk, [](const Graph& step, const Tensors& leaves) {
          const CpuRun run = RunOnCpu(step, leaves);
          REQUIRE(run.code == StepCode::kOk);
          return run.values;
        });
    CAPTURE(chunk);
    MESSAGE("error ", errors.ours, ", PyTorch's ", errors.pytorch);
    CHECK(errors.ours <= errors.pytorch);
  }
}

}  // namespace
}  // namespace stowage
