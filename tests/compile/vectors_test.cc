// Kernels in vectors: shapes with whole vectors and remainders, and the functions of vectors.

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/compile/host_library.h"
#include "tests/support/elements.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

using testing::ArenaInC;
using testing::GraphInC;
using testing::HostLibrary;

// Builds ops on inputs of f32, and outputs named "0", "1", ...
class Inputs {
 public:
  explicit Inputs(GraphBuilder& b) : b_(b) {}
  Value operator()(const Shape& shape) {
    return b_.Input(StrCat("x", count_++), DType::kF32, shape);
  }

 private:
  GraphBuilder& b_;
  int count_ = 0;
};

using Build = std::function<std::vector<Value>(Inputs&)>;

Tensors RandomLeaves(const Graph& graph) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> number(-1, 1);
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    auto& elements = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      elements.push_back(static_cast<double>(number(random)));
    }
  }
  return leaves;
}

// The largest error of the ops in vectors of 16, 32 and 64 bytes.
double ErrorOf(const std::string& name, const Build& build) {
  GraphBuilder b(name);
  Inputs inputs(b);
  int count = 0;
  for (const Value& result : build(inputs)) {
    b.Output(StrCat(count++), result);
  }
  const Result<Graph> graph = b.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Tensors leaves = RandomLeaves(*graph);
  const Tensors expected = Interpret(*graph, leaves);
  double largest = 0;
  for (const int simd : {16, 32, 64}) {
    const GraphInC c = GraphInC::Make(*graph, "net", {}, simd);
    CHECK(c.files.at("net.c").find("VECTOR(") != std::string::npos);
    const HostLibrary library(StrCat(name, simd), c.files, "-O1");
    ArenaInC arena(c);
    for (const auto& [leaf, elements] : leaves) arena.Write(leaf, elements);
    REQUIRE(library.Get<int(uint8_t*)>("net_step")(arena.data()) % 2 == 0);
    for (const GraphOutput& output : c.graph.outputs()) {
      const double error =
          LargestError(arena.Read(output.name), expected.at(output.name));
      if (!(error <= largest) && !std::isnan(largest)) largest = error;
    }
  }
  return largest;
}

TEST_CASE("matmuls of any sizes and transpositions in vectors") {
  struct Sizes {
    int64_t m, n, k;
  };
  for (const Sizes& size : {Sizes{5, 37, 19},
                            {9, 64, 33},
                            {2, 7, 300},
                            {3, 22, 100},
                            {1, 3, 40},
                            {40, 12, 16}}) {
    CAPTURE(size.m);
    CHECK(ErrorOf("matmul", [&](Inputs& input) {
            const auto [m, n, k] = size;
            return std::vector<Value>{
                MatMul(input({m, k}), input({k, n})),
                MatMul(input({k, m}), input({k, n}), true),
                MatMul(input({m, k}), input({n, k}), false, true),
                MatMul(input({k, m}), input({n, k}), true, true),
                MatMul(input({2, 3, m, k}), input({2, 3, n, k}), false, true)};
          }) < 1e-5);
  }
}

TEST_CASE("convolutions as matmuls of patches") {
  struct Geometry {
    Shape x;
    Shape w;
    ConvOptions options;
  };
  const Geometry geometries[] = {
      {{2, 3, 9, 11}, {5, 3, 3, 3}, {.padding = 1}},
      {{2, 3, 9, 11}, {6, 3, 3, 3}, {.stride = 2, .padding = 1}},
      {{1, 4, 13, 10}, {4, 4, 3, 2}, {.stride = {1, 3}, .dilation = {2, 1}}},
      {{2, 6, 7, 7}, {10, 3, 3, 3}, {.padding = 1, .groups = 2}},
      {{2, 5, 6, 7}, {9, 5, 1, 1}, {}},
      {{1, 2, 5, 6, 7}, {4, 2, 3, 3, 3}, {.padding = {1, 0, 1}}},
      {{2, 4, 40}, {4, 4, 5}, {.padding = 2}},
  };
  for (const Geometry& each : geometries) {
    CAPTURE(each.x.ToString());
    CAPTURE(each.w.ToString());
    CHECK(ErrorOf("conv", [&](Inputs& input) {
            const Value x = input(each.x), w = input(each.w);
            const Value y = Conv(x, w, each.options);
            Axes kernel, size;
            for (int axis = 2; axis < each.x.rank(); ++axis) {
              kernel.push_back(each.w[axis]);
              size.push_back(each.x[axis]);
            }
            const Value dy = input(y.shape());
            return std::vector<Value>{
                y, ConvWeightGrad(x, dy, kernel, each.options),
                ConvTranspose(dy, w,
                              {.stride = each.options.stride,
                               .padding = each.options.padding,
                               .dilation = each.options.dilation,
                               .groups = each.options.groups,
                               .size = size})};
          }) < 1e-5);
  }
}

TEST_CASE("attention and its gradients by blocks of queries") {
  struct Case {
    int64_t queries, keys, heads, groups, width;
    AttentionOptions options;
    bool has_bias = false;
  };
  const Case cases[] = {
      {9, 9, 2, 2, 8, {.causal = true}},
      {6, 45, 2, 1, 12, {.causal = true}},
      {37, 37, 4, 2, 16, {.causal = true, .window = 5}},
      {7, 33, 1, 1, 5, {.window = 9}},
      {9, 21, 2, 1, 4, {.causal = true, .softcap = 0.5}},
      {9, 21, 2, 2, 4, {.softcap = 2}, true},
      {4, 18, 2, 2, 20, {}, true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.queries);
    CAPTURE(c.keys);
    CHECK(ErrorOf("attention", [&](Inputs& input) {
            const Shape queries = {2, c.queries, c.heads, c.width};
            const Shape keys = {2, c.keys, c.groups, c.width};
            const Value q = input(queries), k = input(keys), v = input(keys);
            AttentionOptions options = c.options;
            if (c.has_bias) options.bias = input({2, 1, c.queries, c.keys});
            const AttentionGrads grads = AttentionGrad(
                q, k, v, input(queries), input({2, c.heads, c.queries}),
                input(queries), options);
            return std::vector<Value>{Attention(q, k, v, options), grads.dq,
                                      grads.dk, grads.dv};
          }) < 1e-5);
  }
}

TEST_CASE(
    "functions are those of math.h, at infinities and NaN too, and the same in "
    "vectors") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> xs = {0,     -0.0,  kInfinity, -kInfinity, std::nan(""),
                            88.7,  88.73, -87.5,     -103.9,     -104.5,
                            1e-45, 1e-39, 3.4e38,    -3.4e38,    0.625,
                            1e-7,  -1e-4, 9.5,       -20,        1};
  std::mt19937 random(7);
  std::uniform_real_distribution<float> number(-12, 12);
  while (xs.size() < 400) xs.push_back(static_cast<double>(number(random)));
  for (double& x : xs) x = static_cast<double>(static_cast<float>(x));
  const auto n = static_cast<int64_t>(xs.size());
  GraphBuilder b("functions");
  const Value x = b.Input("x", DType::kF32, {n});
  using Function = double (*)(double);
  struct {
    Value value;
    Function in_double;
    bool has_same_bits = true;
  } const functions[] = {
      {Exp(x), std::exp},
      {Tanh(x), std::tanh},
      {Log(x), std::log},
      {Sqrt(x), std::sqrt, false},  // in vectors by Newton's method
      {Abs(x), std::fabs},
      {Relu(x), [](double a) { return a > 0 || a != a ? a : 0; }},
  };
  int count = 0;
  for (const auto& each : functions) b.Output(StrCat(count++), each.value);
  const Graph graph = *b.Finish();
  std::vector<std::vector<double>> scalar;
  for (const int simd : {0, 16, 32, 64}) {
    const GraphInC c = GraphInC::Make(graph, "net", {}, simd);
    const HostLibrary library(StrCat("functions", simd), c.files, "-O2");
    ArenaInC arena(c);
    arena.Write("x", xs);
    CHECK(library.Get<int(uint8_t*)>("net_step")(arena.data()) == 0);
    count = 0;
    for (const auto& each : functions) {
      const std::vector<double> got = arena.Read(StrCat(count++));
      if (simd == 0) scalar.push_back(got);
      for (size_t i = 0; i < xs.size(); ++i) {
        CAPTURE(simd);
        CAPTURE(count);
        CAPTURE(xs[i]);
        const double want = each.in_double(xs[i]);
        const auto rounded = static_cast<double>(static_cast<float>(want));
        if (std::isnan(want)) {
          CHECK(std::isnan(got[i]));
          continue;
        }
        if (each.has_same_bits) {
          CHECK(got[i] == scalar[static_cast<size_t>(count - 1)][i]);
        }
        if (std::isinf(rounded)) {
          CHECK(got[i] == rounded);
        } else {
          // Three units in the last place, or in that of the smallest number.
          CHECK(std::abs(got[i] - want) <=
                3 * std::abs(want) * 0x1p-23 + 0x1p-149);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stowage
