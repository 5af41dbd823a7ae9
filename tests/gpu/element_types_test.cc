// Kernels of element types and formats of blocks that no row of the op table has:
// arithmetic of integers, comparisons, choices, updates of slices, gathered blocks.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"
#include "tests/gpu/run_graph.h"
#include "tests/support/elements.h"

namespace stowage {
namespace {

// More than a pack of any type, and not whole packs.
constexpr int64_t kCount = 100;

// low, low + 1, ..., high, and again.
std::vector<double> Cycle(int64_t n, int low, int high) {
  std::vector<double> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = low + static_cast<int>(i) * 3 % (high - low + 1);
  }
  return x;
}

constexpr DType kIntegers[] = {DType::kU8, DType::kI16, DType::kI32,
                               DType::kI64};

TEST_CASE("arithmetic of every type of integer") {
  for (const DType dtype : kIntegers) {
    CAPTURE(DTypeName(dtype));
    const bool is_signed = dtype != DType::kU8;
    const Graph graph =
        MakeGraph(StrCat("integers ", DTypeName(dtype)), [&](GraphBuilder& g) {
          const Value a = g.Input("a", dtype, {kCount});
          const Value b = g.Input("b", dtype, {kCount});
          g.Output("add", Add(a, b));
          g.Output("sub", Sub(a, b));
          g.Output("mul", Mul(a, b));
          g.Output("minimum", Minimum(a, b));
          g.Output("maximum", Maximum(a, b));
          g.Output("abs", Abs(Sub(b, a)));
          g.Output("sign", Sign(b));
          g.Output("neg", Neg(b));
        });
    // None of the results is beyond u8; for that, b is 0 where it is negated.
    Tensors leaves;
    leaves["a"] = Cycle(kCount, is_signed ? -7 : 7, 9);
    leaves["b"] = Cycle(kCount, is_signed ? -5 : 0, is_signed ? 7 : 0);
    if (!is_signed) {
      // |b - a| wraps around.
      const GpuRun run = RunInEmulator(graph, leaves);
      REQUIRE(run.wrong == "");
      CHECK(run.values.at("abs")[0] == 256 - 7);
      CHECK(run.values.at("neg")[0] == 0);
      leaves["a"] = leaves["b"];
    }
    CheckAgainstInterpreter(graph, leaves, 0);
    leaves["a"] = Cycle(kCount, 7, 9);
    leaves["b"] = Cycle(kCount, 1, 7);
    const Graph in_range =
        MakeGraph(StrCat("in range ", DTypeName(dtype)), [&](GraphBuilder& g) {
          const Value a = g.Input("a", dtype, {kCount});
          const Value b = g.Input("b", dtype, {kCount});
          g.Output("add", Add(a, b));
          g.Output("sub", Sub(a, b));
          g.Output("mul", Mul(a, b));
          g.Output("minimum", Minimum(a, b));
          g.Output("maximum", Maximum(a, b));
          g.Output("abs", Abs(b));
          g.Output("sign", Sign(b));
        });
    CheckAgainstInterpreter(in_range, leaves, 0);
  }
}

TEST_CASE("comparisons and choices of every type") {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kF64) continue;
    CAPTURE(DTypeName(dtype));
    const Graph graph = MakeGraph(
        StrCat("comparisons ", DTypeName(dtype)), [&](GraphBuilder& g) {
          const Value a = g.Input("a", dtype, {kCount});
          const Value b = g.Input("b", dtype, {kCount});
          g.Output("equal", Equal(a, b));
          g.Output("not equal", NotEqual(a, b));
          if (dtype != DType::kBool) {
            g.Output("less", Less(a, b));
            g.Output("less equal", LessEqual(a, b));
            g.Output("greater", Greater(a, b));
            g.Output("greater equal", GreaterEqual(a, b));
          }
          g.Output("where", Where(g.Input("c", DType::kBool, {kCount}), a, b));
        });
    Tensors leaves;
    const bool is_bool = dtype == DType::kBool;
    leaves["a"] = Cycle(kCount, 0, is_bool ? 1 : 4);
    leaves["b"] = Cycle(kCount, is_bool ? 0 : 2, is_bool ? 0 : 3);
    leaves["c"] = Cycle(kCount, 0, 1);
    CheckAgainstInterpreter(graph, leaves, 0);
  }
}

TEST_CASE("a slice of any type is updated from where the step says") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(DTypeName(dtype));
    const Graph graph =
        MakeGraph(StrCat("slices ", DTypeName(dtype)), [&](GraphBuilder& g) {
          const Value whole = SliceUpdate(Fill(g, 1, dtype, {5, 7}),
                                          g.Input("x", dtype, {5, 3}), 1,
                                          g.Input("start", DType::kI32, {}));
          g.Output("y", whole);
        });
    Tensors leaves;
    leaves["x"] = Cycle(15, 0, dtype == DType::kBool ? 1 : 9);
    leaves["start"] = {2};
    CheckAgainstInterpreter(graph, leaves, 0);
  }
}

TEST_CASE("rows of blocks of every format are gathered") {
  for (int i = 0; i < kWeightTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    const BlockFormat& format = FormatOf(type);
    const std::string name{format.name};
    CAPTURE(name);
    const int64_t columns = 2 * format.numbers;
    const Graph graph =
        MakeGraph(StrCat("gather of ", name), [&](GraphBuilder& g) {
          g.Output("y",
                   QuantizedGather(g.Input("table", DType::kU8,
                                           {5, BytesOf(type, columns)}),
                                   g.Input("indices", DType::kI32, {7}), type));
        });
    // Bytes below 0x38: every scale among them is small.
    Tensors leaves;
    leaves["table"] = Cycle(5 * BytesOf(type, columns), 0, 0x36);
    leaves["indices"] = Cycle(7, 0, 4);
    CheckAgainstInterpreter(graph, leaves, 0);
  }
}

}  // namespace
}  // namespace stowage
