// Matmuls of bf16, and what is made of them, beside f64 sums of the same elements: with f32
// sums of n products, each product and sum rounded once, and one rounding to bf16.
//
// These bounds hold for every CPU target. Where the processor multiplies pairs of bf16
// itself (cpu/kernels/bf16_gemm.h), its order and its zeros for subnormals are tested, too.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/strings.h"
#include "cpu/kernel.h"
#include "cpu/targets.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "math/small_floats.h"
#include "tests/cpu/run_graph.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

bool MultipliesByPairs() {
  return cpu::RunningCpuTarget().kernels->vectors == "AVX512-BF16";
}

double ToBFloat16(double x) {
  return math::BFloat16ToFloat(math::FloatToBFloat16(static_cast<float>(x)));
}

// bf16 numbers with all their digits.
Tensors Bf16Leaves(const Graph& graph) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  Tensors leaves;
  for (const ValueInfo& value : graph.values()) {
    if (!value.is_leaf()) continue;
    std::vector<double>& x = leaves[value.name];
    for (int64_t i = 0; i < value.type.shape.num_elements(); ++i) {
      x.push_back(ToBFloat16(normal(random)));
    }
  }
  return leaves;
}

Tensors Magnitudes(Tensors leaves) {
  for (auto& [name, x] : leaves) {
    for (double& element : x) element = std::abs(element);
  }
  return leaves;
}

using Outputs = std::function<void(GraphBuilder&, DType)>;

// Every output that `build` makes of leaves of bf16 is linear in each of them, and sums at
// most `terms` products.
void CheckSums(const std::string& name, int64_t terms, const Outputs& build) {
  CAPTURE(name);
  const auto graph_of = [&](DType dtype) {
    return MakeGraph(name, [&](GraphBuilder& g) { build(g, dtype); });
  };
  const Graph graph = graph_of(DType::kBF16);
  const Graph exact_graph = graph_of(DType::kF64);
  const Tensors leaves = Bf16Leaves(graph);
  const Tensors exact = Interpret(exact_graph, leaves);
  const Tensors sizes = Interpret(exact_graph, Magnitudes(leaves));
  const CpuRun one = RunOnCpu(graph, leaves);
  REQUIRE(one.code == StepCode::kOk);
  for (const GraphOutput& output : graph.outputs()) {
    CAPTURE(output.name);
    const std::vector<double>& got = one.values.at(output.name);
    const std::vector<double>& want = exact.at(output.name);
    REQUIRE(got.size() == want.size());
    int outside = 0;  // of the bound; NaN is
    for (size_t i = 0; i < got.size(); ++i) {
      const double of_sums =
          static_cast<double>(terms) * 0x1p-23 * sizes.at(output.name)[i];
      const double bound = of_sums + 0x1p-8 * (std::abs(want[i]) + of_sums);
      if (!(std::abs(got[i] - want[i]) <= bound)) ++outside;
    }
    CHECK(outside == 0);
  }
  for (const int threads : {2, 5}) {
    const CpuRun run = RunOnCpu(graph, leaves, {threads, true, true});
    CHECK(run.bytes == one.bytes);
    CHECK(run.guards_intact);
    CHECK(run.heap_calls == 0);
  }
}

TEST_CASE("matmuls of bf16 of every size and transposition") {
  const int64_t sizes[][3] = {
      {1, 1, 1},    {1, 70, 90},    {2, 601, 16},   {7, 5, 3},    {8, 16, 48},
      {33, 31, 49}, {17, 1300, 35}, {300, 17, 130}, {520, 1, 20}, {16, 2, 15},
      {9, 513, 17}, {40, 64, 31},   {70, 1025, 33}};
  for (const auto& [m, k, n] : sizes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Shape a = ta ? Shape{k, m} : Shape{m, k};
        const Shape b = tb ? Shape{n, k} : Shape{k, n};
        CheckSums(StrCat("matmul ", a.ToString(), b.ToString(), ta, tb), k,
                  [&](GraphBuilder& g, DType dtype) {
                    g.Output("y", MatMul(g.Input("a", dtype, a),
                                         g.Input("b", dtype, b), ta, tb));
                  });
      }
    }
  }
}

TEST_CASE("stacks of matmuls of bf16, of views and broadcasts") {
  const auto check = [](const char* name, int64_t terms, const Shape& a_shape,
                        const Shape& b_shape, auto&& make) {
    CheckSums(name, terms, [&](GraphBuilder& g, DType dtype) {
      g.Output("y", make(g.Input("a", dtype, a_shape),
                         g.Input("b", dtype, b_shape)));
    });
  };
  check("rows folded", 21, {3, 50, 21}, {21, 30},
        [](Value a, Value b) { return MatMul(a, b); });
  check("rows of a slice", 20, {3, 60, 20}, {20, 30},
        [](Value a, Value b) { return MatMul(Slice(a, 1, 5, 55), b); });
  check("columns of slices", 41, {70, 60}, {60, 90}, [](Value a, Value b) {
    return MatMul(Slice(a, 1, 7, 48), Slice(Slice(b, 0, 3, 44), 1, 1, 36));
  });
  check("transposed stack by one matrix", 20, {3, 20, 50}, {20, 30},
        [](Value a, Value b) { return MatMul(a, b, true, false); });
  check("stack by stack", 20, {2, 3, 17, 20}, {2, 3, 20, 19},
        [](Value a, Value b) { return MatMul(a, b); });
  check("heads as views", 20, {2, 17, 4, 20}, {2, 19, 4, 20},
        [](Value a, Value b) {
          return MatMul(Permute(a, {0, 2, 1, 3}), Permute(b, {0, 2, 3, 1}));
        });
  check(
      "neither dimension contiguous", 7, {7, 9, 3}, {5, 7, 2},
      [](Value a, Value b) {
        return MatMul(
            Permute(a, {2, 1, 0}),
            BroadcastTo(Reshape(Slice(Permute(b, {2, 1, 0}), 0, 0, 1), {7, 5}),
                        {3, 7, 5}));
      });
}

// A convolution and both of its gradients. `terms` are the most of one element.
void CheckConvolution(const char* name, int64_t terms, const Shape& x_shape,
                      const Shape& w_shape, const ConvOptions& options) {
  CheckSums(name, terms, [&](GraphBuilder& g, DType dtype) {
    const Value x = g.Input("x", dtype, x_shape);
    const Value w = g.Input("w", dtype, w_shape);
    const Value y = Conv(x, w, options);
    const Value dy = g.Input("dy", dtype, y.shape());
    g.Output("y", y);
    g.Output("dx",
             ConvTranspose(dy, w,
                           {.stride = options.stride,
                            .padding = options.padding,
                            .dilation = options.dilation,
                            .groups = options.groups,
                            .size = Axes(x_shape.begin() + 2, x_shape.end())}));
    g.Output("dw",
             ConvWeightGrad(x, dy, Axes(w_shape.begin() + 2, w_shape.end()),
                            options));
  });
}

TEST_CASE("convolutions of bf16, and their gradients") {
  CheckConvolution("lines of an odd length", 5 * 33 * 31, {5, 5, 33, 31},
                   {7, 5, 3, 3}, {.padding = 1});
  CheckConvolution("with strides", 2 * 20 * 18, {2, 3, 40, 36}, {20, 3, 7, 7},
                   {.stride = 2, .padding = 3});
  CheckConvolution("of one channel, by one element", 2 * 300, {2, 1, 20, 15},
                   {3, 1, 1, 1}, {});
  CheckConvolution("of more than a block of depth", 720, {1, 80, 9, 10},
                   {33, 80, 3, 3}, {.padding = 1});
  CheckConvolution("in groups, with dilation and uneven padding", 2 * 19 * 23,
                   {2, 18, 19, 23}, {22, 9, 2, 3},
                   {.padding = {0, 2, 1, 2}, .dilation = {2, 1}, .groups = 2});
  CheckConvolution("in one dimension", 3 * 200, {3, 8, 200}, {8, 8, 3},
                   {.stride = 2});
  CheckConvolution("in three dimensions", 2 * 9 * 10 * 11, {2, 3, 9, 10, 11},
                   {5, 3, 2, 1, 2}, {.padding = {1, 0, 0, 0, 0, 1}});
}

TEST_CASE("convolutions of bf16 of small maps, by the images of a batch") {
  CheckConvolution("with padding", 17 * 16, {17, 9, 4, 4}, {10, 9, 3, 3},
                   {.padding = 1});
  CheckConvolution("of one element, which eight taps of nine miss", 33,
                   {33, 16, 1, 1}, {20, 16, 3, 3}, {.padding = 1});
  CheckConvolution("with strides that leave elements out", 16 * 9,
                   {16, 8, 8, 7}, {8, 8, 2, 2}, {.stride = 3});
  CheckConvolution("in groups", 34 * 40, {34, 18, 3, 5}, {22, 9, 2, 3},
                   {.padding = {0, 2, 1, 2}, .dilation = {2, 1}, .groups = 2});
  CheckConvolution("of more images than a strip has", 115 * 2, {115, 50, 2, 1},
                   {35, 50, 1, 1}, {});
  CheckConvolution("of more channels than a strip has", 101 * 4,
                   {19, 101, 2, 2}, {18, 101, 2, 2}, {.padding = {1, 0, 0, 1}});
}

// y = a b for a of one row and b of one column.
double DotOf(const std::vector<double>& a, const std::vector<double>& b) {
  const auto k = static_cast<int64_t>(a.size());
  const Graph graph = MakeGraph("dot", [&](GraphBuilder& g) {
    g.Output("y", MatMul(g.Input("a", DType::kBF16, {1, k}),
                         g.Input("b", DType::kBF16, {k, 1})));
  });
  return RunOnCpu(graph, {{"a", a}, {"b", b}}).values.at("y")[0];
}

TEST_CASE("the second elements of a pair are added before the first") {
  // 1 + 2^24 is 2^24 in f32. In the order of the elements it would be 2^24 + 1 - 2^24 + 1,
  // of which the first 1 is lost and the last is left.
  const double want = MultipliesByPairs() ? 0 : 1;
  CHECK(DotOf({0x1p24, 1, -0x1p24, 1}, {1, 1, 1, 1}) == want);
  CHECK(DotOf({1, 0x1p24, 1, -0x1p24}, {1, 1, 1, 1}) ==
        (MultipliesByPairs() ? 1 : 0));
}

TEST_CASE("pairs read subnormal elements as zeros") {
  const double want = MultipliesByPairs() ? 0 : 0x1p-30;
  CHECK(DotOf({0x1p-130}, {0x1p100}) == want);
  CHECK(DotOf({0x1p-120}, {0x1p100}) == 0x1p-20);
}

TEST_CASE("an infinity or a NaN of bf16 shows where it is multiplied alone") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  CHECK(DotOf({1, kInfinity, 2}, {1, 1, 1}) == kInfinity);
  CHECK(DotOf({1, 2, kInfinity}, {1, 1, -1}) == -kInfinity);
  CHECK(std::isnan(DotOf({kInfinity, kInfinity, 0}, {1, -1, 0})));
  CHECK(std::isnan(DotOf({1, 1, kInfinity}, {1, 1, 0})));
  CHECK(std::isnan(DotOf({1, kNaN}, {1, 1})));

  // Row 1 begins where row 0, of an odd number of elements, ends; in images, a line begins
  // where the one before it ends.
  const Graph graph = MakeGraph("neighbours", [](GraphBuilder& g) {
    const Value a = g.Input("a", DType::kBF16, {2, 3});
    g.Output("rows", MatMul(a, g.Input("b", DType::kBF16, {3, 40})));
    g.Output("columns",
             MatMul(g.Input("c", DType::kBF16, {40, 3}), a, false, true));
    const Value x = g.Input("x", DType::kBF16, {1, 2, 3, 3});
    const Value dy = g.Input("dy", DType::kBF16, {1, 2, 3, 3});
    g.Output("filters", ConvWeightGrad(x, dy, {1, 1}, {}));
  });
  Tensors leaves = Bf16Leaves(graph);
  leaves["a"] = {1, 2, 3, kInfinity, kNaN, kInfinity};
  leaves["x"].assign(18, 1);
  std::fill(leaves["x"].begin() + 9, leaves["x"].end(), kNaN);
  const CpuRun run = RunOnCpu(graph, leaves);
  for (size_t i = 0; i < 40; ++i) {
    CHECK(std::isfinite(run.values.at("rows")[i]));
    CHECK(std::isnan(run.values.at("rows")[40 + i]));
    CHECK(std::isfinite(run.values.at("columns")[2 * i]));
    CHECK(std::isnan(run.values.at("columns")[2 * i + 1]));
  }
  // (filter, channel): channel 1 alone.
  for (const size_t filter : {0, 1}) {
    CHECK(std::isfinite(run.values.at("filters")[2 * filter]));
    CHECK(std::isnan(run.values.at("filters")[2 * filter + 1]));
  }
}

TEST_CASE("a loss of bf16 by chunks has the gradients of all logits") {
  const auto graph_of = [](DType dtype, int64_t chunk) {
    return MakeGraph(StrCat("loss by ", chunk), [&](GraphBuilder& g) {
      const Value x = g.Input("x", dtype, {2, 41, 33});
      const Value w = g.Input("w", dtype, {301, 33});
      const Value labels = g.Input("labels", DType::kI32, {2, 41});
      const Value dloss =
          g.Input("dloss", dtype == DType::kF64 ? dtype : DType::kF32, {});
      g.Output("forward", LinearCrossEntropy(x, w, labels, chunk));
      const LinearCrossEntropyGrads grads =
          LinearCrossEntropyGrad(x, w, labels, dloss, chunk);
      g.Output("loss", grads.loss);
      g.Output("dx", grads.dx);
      g.Output("dw", grads.dw);
    });
  };
  Tensors leaves = RandomLeaves(graph_of(DType::kBF16, 82), 301);
  leaves["dloss"] = {64};
  const Tensors want = Interpret(graph_of(DType::kF64, 82), leaves);
  for (const int64_t chunk : {1, 7, 40, 82, 1000}) {
    CAPTURE(chunk);
    const Graph graph = graph_of(DType::kBF16, chunk);
    const CpuRun run = RunOnCpu(graph, leaves);
    REQUIRE(run.code == StepCode::kOk);
    CHECK(run.values.at("forward") == run.values.at("loss"));
    CHECK(run.values.at("loss")[0] ==
          doctest::Approx(want.at("loss")[0]).epsilon(1e-6));
    for (const char* name : {"dx", "dw"}) {
      const std::vector<double>& exact = want.at(name);
      double largest = 0;
      for (const double x : exact) largest = std::max(largest, std::abs(x));
      int outside = 0;  // NaN is
      for (size_t i = 0; i < exact.size(); ++i) {
        const double difference = std::abs(run.values.at(name)[i] - exact[i]);
        if (!(difference <= 0x1p-7 * largest)) ++outside;
      }
      CAPTURE(name);
      CHECK(outside == 0);
    }
    for (const int threads : {2, 5}) {
      const CpuRun other = RunOnCpu(graph, leaves, {threads, true, true});
      CHECK(other.bytes == run.bytes);
      CHECK(other.guards_intact);
      CHECK(other.heap_calls == 0);
    }
  }
}

}  // namespace
}  // namespace stowage
