// Reductions on the GPU kernels, in the emulator: sizes around those of packs,
// warps, blocks and pieces, sums that 16 bits could not hold, three orders of
// threads.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/strings.h"
#include "gpu/kernel.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

// Positive terms: a sum that loses some, or that is kept in 16 bits, is off.
constexpr LeafRange kPositive = {.low = 0.5, .high = 1.5, .index_limit = 100};

Graph Reductions(DType dtype, const Shape& shape, const Axes& axes) {
  return MakeGraph(
      StrCat("reduce ", TensorType{dtype, shape}.ToString(), " along ", axes[0],
             " and ", axes.size() - 1, " more axes"),
      [&](GraphBuilder& g) {
        const Value x = g.Input("x", dtype, shape);
        g.Output("sum", ReduceSum(x, axes));
        if (IsFloat(dtype)) g.Output("mean", ReduceMean(x, axes));
        g.Output("max", ReduceMax(x, axes));
      });
}

void CheckReductions(DType dtype, const Shape& shape, const Axes& axes) {
  const Graph graph = Reductions(dtype, shape, axes);
  CheckAgainstInterpreter(graph, RandomLeaves(graph, kPositive),
                          ToleranceOf(dtype));
}

TEST_CASE("rows of any length are reduced") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n :
         {1, 3, 8, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4096, 4097}) {
      CheckReductions(dtype, {3, n}, {1});
    }
    CheckReductions(dtype, {17, 64}, {1});
    CheckReductions(dtype, {2, 50257}, {1});
    CheckReductions(dtype, {2, 50264}, {1});
  }
}

TEST_CASE("everything is reduced in two stages") {
  for (const DType dtype : kComputedDTypes) {
    if (dtype == DType::kF16) continue;  // f16 ends at 65504
    CheckReductions(dtype, {300, 1001}, {0, 1});
    CheckReductions(dtype, {301, 1003}, {0, 1});
  }
}

TEST_CASE("columns of any length are reduced") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t rows : {1, 7, 8, 63, 64, 65, 200}) {
      CheckReductions(dtype, {rows, 33}, {0});
      CheckReductions(dtype, {rows, 64}, {0});
    }
    CheckReductions(dtype, {3001, 3}, {0});
    CheckReductions(dtype, {1000, 264}, {0});
    CheckReductions(dtype, {100, 1037}, {0});
    CheckReductions(dtype, {3, 70, 40}, {1});
    CheckReductions(dtype, {3, 5, 2, 7}, {1, 2});
  }
}

TEST_CASE("any axes are reduced") {
  for (const DType dtype : kComputedDTypes) {
    CheckReductions(dtype, {3, 4, 5, 6}, {0, 2});
    CheckReductions(dtype, {3, 4, 5, 6}, {1, 3});
    CheckReductions(dtype, {40, 3, 41}, {0, 2});
    CheckReductions(dtype, {2, 3, 2, 3, 2, 3, 2, 3}, {1, 3, 5, 7});
  }
}

TEST_CASE("integers are reduced") {
  for (const DType dtype : {DType::kI16, DType::kI32, DType::kI64}) {
    CheckReductions(dtype, {3, 250}, {1});
    CheckReductions(dtype, {250, 3}, {0});
    CheckReductions(dtype, {4, 2, 2}, {0, 2});
    if (dtype != DType::kI16) CheckReductions(dtype, {50, 60}, {0, 1});
  }
  const Graph bytes = MakeGraph("bytes", [](GraphBuilder& g) {
    const Value x = g.Input("x", DType::kU8, {3, 1500});
    g.Output("sum", ReduceSum(x, {1}));
    g.Output("max", ReduceMax(x, {1}));
  });
  const GpuRun run = RunInEmulator(
      bytes, {{"x", std::vector<double>(3 * 1500, 7)}}, {.seed = 1});
  // 10500 wraps around: 10500 = 41 * 256 + 4.
  CHECK(run.values.at("sum") == std::vector<double>{4, 4, 4});
  CHECK(run.values.at("max") == std::vector<double>{7, 7, 7});
}

TEST_CASE("squares of all elements are added up in f32") {
  for (const DType dtype : kComputedDTypes) {
    for (const int64_t n : {1, 9, 1000, 1024, 5003, 100001}) {
      const Graph graph =
          MakeGraph(StrCat("sum of squares of ", n, " in ", DTypeName(dtype)),
                    [&](GraphBuilder& g) {
                      g.Output("y", SumSquares(g.Input("x", dtype, {n})));
                    });
      CheckAgainstInterpreter(graph, RandomLeaves(graph, kPositive), 1e-5);
    }
  }
}

TEST_CASE("a maximum is NaN where an element is") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const int64_t n : {40, 3000, 40000}) {
    const Graph graph = Reductions(DType::kF32, {3, n}, {1});
    std::vector<double> x(static_cast<size_t>(3 * n), -infinity);
    x[static_cast<size_t>(n + n / 2)] = nan;
    x[static_cast<size_t>(2 * n + 17)] = -3;
    const GpuRun run = RunInEmulator(graph, {{"x", x}}, {.seed = 5});
    const std::vector<double>& max = run.values.at("max");
    CHECK(max[0] == -infinity);
    CHECK(std::isnan(max[1]));
    CHECK(max[2] == -3);
  }
}

Graph ArgMaxGraph(DType dtype, const Shape& shape) {
  return MakeGraph(StrCat("arg_max of ", TensorType{dtype, shape}.ToString()),
                   [&](GraphBuilder& g) {
                     g.Output("y", ArgMax(g.Input("x", dtype, shape)));
                   });
}

TEST_CASE("arg_max finds the first of the largest") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI64,
                            DType::kI32, DType::kI16, DType::kU8}) {
    for (const int64_t n : {1, 2, 31, 33, 1000, 1025, 5000}) {
      // Few values, so that most are there many times.
      const Graph graph = ArgMaxGraph(dtype, {9, n});
      Tensors leaves = RandomLeaves(graph, {.index_limit = 5});
      for (double& x : leaves["x"]) x = std::floor(4 * x);
      if (dtype == DType::kU8) {
        for (double& x : leaves["x"]) x = std::abs(x);
      }
      CheckAgainstInterpreter(graph, leaves, 0);
    }
  }
}

TEST_CASE("arg_max finds the first NaN") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t n : {70, 2000}) {
    std::vector<double> x(static_cast<size_t>(n), 1);
    x[3] = std::numeric_limits<double>::infinity();
    x[66] = x[68] = nan;
    const Graph graph = ArgMaxGraph(DType::kBF16, {n});
    CHECK(RunInEmulator(graph, {{"x", x}}, {.seed = 2}).values.at("y")[0] ==
          66);
  }
}

}  // namespace
}  // namespace stowage
